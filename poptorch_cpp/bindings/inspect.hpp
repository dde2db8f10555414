// What a compiled model holds and does, as columns, for Python.
#pragma once

#include <pybind11/pybind11.h>

#include "session/session.hpp"

namespace poptorch::bindings {

// Executable.inspect(): numbers are NumPy arrays, texts lists.
pybind11::dict inspect_dict(const session::Executable& executable);
// Executable.form_lines(): by form, the lines of its ops with their ids.
pybind11::dict form_lines_dict(const session::Executable& executable);

}  // namespace poptorch::bindings
