// Custom ops whose functions are written in Python.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_python_ops(pybind11::module_& m);

}  // namespace poptorch::bindings
