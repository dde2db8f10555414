// Binds files of executables for Python: the class ExecutableFile of _torch.
#pragma once

#include <pybind11/pybind11.h>

namespace poptorch::bindings {

void bind_files(pybind11::module_& m);

}  // namespace poptorch::bindings
