// Files that are written whole or not at all, for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_files(pybind11::module_& m);

}  // namespace poptorch::bindings
