// The cost model's constants and functions, for the checks of its figures.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_cost_model(pybind11::module_& m);

}  // namespace poptorch::bindings
