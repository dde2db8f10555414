// Binds lists of a module's members for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_members(pybind11::module_& m);

}  // namespace poptorch::bindings
