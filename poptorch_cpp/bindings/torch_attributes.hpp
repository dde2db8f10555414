// Binds loops over the attributes of modules for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

// Returns the `__dict__` of an object, whatever its class defines.
pybind11::dict attributes_of(pybind11::handle object);

void bind_attributes(pybind11::module_& m);

}  // namespace poptorch::bindings
