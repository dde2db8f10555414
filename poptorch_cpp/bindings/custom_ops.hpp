// Queries of custom ops for Python: their attributes' text, their gradient ops, and their list.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_custom_ops(pybind11::module_& m);

}  // namespace poptorch::bindings
