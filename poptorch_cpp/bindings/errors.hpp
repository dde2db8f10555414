// How errors of the core become the exceptions of poptorch_core.errors. Shared by the Python
// modules.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "support/error.hpp"

namespace poptorch::bindings {

// Raises poptorch_core.errors.Error with the message, type and context frames of `error`.
inline void raise_python_error(const support::Error& error) {
  namespace py = pybind11;
  py::object type = py::module_::import("poptorch_core.errors").attr("Error");
  py::object value = type(error.what(), error.type(), error.frames());
  PyErr_SetObject(type.ptr(), value.ptr());
}

inline void register_errors() {
  pybind11::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const support::Error& error) {
      raise_python_error(error);
    }
  });
}

}  // namespace poptorch::bindings
