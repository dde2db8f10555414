// Binds the running trace for Python: the user's place, functions, hooks, gradients, regions.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_tracing(pybind11::module_& m);

}  // namespace poptorch::bindings
