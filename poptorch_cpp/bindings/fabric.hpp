// What joins the instances of a program, for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

// Fabric and make_shared_fabric().
void bind_fabric(pybind11::module_& m);

}  // namespace poptorch::bindings
