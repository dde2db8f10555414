// Binds collectives between replicas for Python: the functions of poptorch/distributed.hpp.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_collectives(pybind11::module_& m);

}  // namespace poptorch::bindings
