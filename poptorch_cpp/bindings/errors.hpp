// Turns errors of the core into the exceptions of poptorch_core.errors. Both Python modules use it.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "support/error.hpp"
#include "support/faults.hpp"

namespace poptorch::bindings {

// Raises the exception that poptorch_core.errors makes from the message, type, context frames,
// place and recovery action of `error`.
inline void raise_python_error(const support::Error& error) {
  namespace py = pybind11;
  // Messages may contain the user's bytes: invalid UTF-8 is shown as replacement characters.
  auto decoded = [](const std::string& text) {
    return py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  };
  py::list frames;
  for (const std::string& frame : error.frames()) frames.append(decoded(frame));
  const auto* failure = dynamic_cast<const support::DeviceError*>(&error);
  const std::string action = failure ? failure->recovery_action() : "";
  const py::module_ errors = py::module_::import("poptorch_core.errors");
  const py::object made =
      errors.attr("of_core")(decoded(error.what()), error.type(), frames, error.origin(), action);
  // If a Python function caused the error, its exception becomes the cause; Ctrl-C replaces it.
  const py::object value = errors.attr("with_cause")(made);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), value.ptr());
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
