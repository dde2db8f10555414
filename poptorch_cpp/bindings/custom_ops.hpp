// What Python asks of custom ops: their attributes' text, their gradient ops, which there are.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_custom_ops(pybind11::module_& m);

}  // namespace poptorch::bindings
