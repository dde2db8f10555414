// The IR's builder for Python: modules, graphs, ops and values, and autodiff. Thin: every check is
// the core's. Types travel as (name of the dtype, shape).
#pragma once

#include <pybind11/pybind11.h>

#include "ir/module.hpp"

namespace poptorch::bindings {

// The class of modules, to which several files add methods.
pybind11::class_<ir::Module>& module_class(pybind11::module_& m);
void bind_ir_building(pybind11::module_& m);

}  // namespace poptorch::bindings
