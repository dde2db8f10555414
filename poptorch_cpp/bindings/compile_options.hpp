// What the compiler is told, from the dicts of python/poptorch/_impl/compile_options.py and
// optimisers.py. Absent keys leave the field's default.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "session/session.hpp"

namespace poptorch::bindings {

// UserError for unknown names of dtypes and strategies.
session::CompileOptions options_of(const pybind11::dict& given,
                                   const std::optional<pybind11::dict>& optimiser);

}  // namespace poptorch::bindings
