// Binds the fabric that joins the instances of a program over torch.distributed, for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

// Binds make_wired_fabric().
void bind_wired_fabric(pybind11::module_& m);

}  // namespace poptorch::bindings
