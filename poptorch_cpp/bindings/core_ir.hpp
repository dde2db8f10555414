// Binds the IR's builder for Python: modules, graphs, ops and values, and autodiff. The core does
// every check. Types are passed as (name of the dtype, shape).
#pragma once

#include <pybind11/pybind11.h>

#include "ir/module.hpp"

namespace poptorch::bindings {

// Returns the Python class of modules, to which several files add methods.
pybind11::class_<ir::Module>& module_class(pybind11::module_& m);
void bind_ir_building(pybind11::module_& m);

}  // namespace poptorch::bindings
