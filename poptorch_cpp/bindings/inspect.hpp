// A compiled model's contents and work as columns, for Python.
#pragma once

#include <pybind11/pybind11.h>

#include "session/session.hpp"

namespace poptorch::bindings {

// Implements Executable.inspect(): numbers are NumPy arrays, texts are lists.
pybind11::dict inspect_dict(const session::Executable& executable);
// Implements Executable.form_lines(): by form, the lines of its ops with their ids.
pybind11::dict form_lines_dict(const session::Executable& executable);

}  // namespace poptorch::bindings
