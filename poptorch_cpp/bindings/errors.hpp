// How errors of the core become the exceptions of poptorch_core.errors. Shared by the Python
// modules.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "support/error.hpp"

namespace poptorch::bindings {

// Raises poptorch_core.errors.Error with the message, type and context frames of `error`.
inline void raise_python_error(const support::Error& error) {
  namespace py = pybind11;
  // Messages may hold bytes of the user's: what is no UTF-8 is shown as such.
  auto decoded = [](const std::string& text) {
    return py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  };
  py::list frames;
  for (const std::string& frame : error.frames()) frames.append(decoded(frame));
  py::object type = py::module_::import("poptorch_core.errors").attr("Error");
  py::object value = type(decoded(error.what()), error.type(), frames);
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
