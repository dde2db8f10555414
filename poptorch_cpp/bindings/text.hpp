// Converts Python text for the core, always to UTF-8. A lone surrogate, or invalid UTF-8, raises a
// poptorch error instead of one of Python's codecs or pybind11.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::bindings {

// A std::string that a bound function takes from Python.
struct Text {
  std::string value;
  operator const std::string&() const { return value; }  // NOLINT: implicit by design
};

// Returns any object's text for messages, in ASCII and of a bounded length.
inline std::string ascii_of(pybind11::handle object) {
  const auto text = pybind11::reinterpret_steal<pybind11::object>(PyObject_ASCII(object.ptr()));
  if (!text) throw pybind11::error_already_set();
  const std::string ascii = PyUnicode_AsUTF8(text.ptr());
  constexpr size_t kLongest = 100;
  return ascii.size() <= kLongest ? ascii : ascii.substr(0, kLongest) + "...";
}

// Returns the bytes of a str or bytes, lone surrogates included, for callers that check them and
// report their position.
inline std::string bytes_of_text(const pybind11::object& text) {
  if (PyBytes_Check(text.ptr())) return pybind11::bytes(text);
  const auto encoded = pybind11::reinterpret_steal<pybind11::object>(
      PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
  if (!encoded) throw pybind11::error_already_set();
  return pybind11::bytes(encoded);
}

// A Python exception whose what() is its message, or "" if it has none. pybind11's what() adds the
// traceback, and ends the process if a path in it is invalid UTF-8.
class SpeakingError final : public pybind11::error_already_set {
 public:
  explicit SpeakingError(const pybind11::error_already_set& error)
      : pybind11::error_already_set(error) {
    const auto text = pybind11::reinterpret_steal<pybind11::object>(PyObject_Str(value().ptr()));
    if (text) text_ = bytes_of_text(text);
    PyErr_Clear();
  }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

[[noreturn]] inline void refuse_text(pybind11::handle object) {
  throw support::UserError(support::str("[text] ", ascii_of(object),
                                        " cannot be written as UTF-8. Use other characters."));
}

}  // namespace poptorch::bindings

template <>
struct pybind11::detail::type_caster<poptorch::bindings::Text> {
  PYBIND11_TYPE_CASTER(poptorch::bindings::Text, const_name("str"));

  bool load(handle source, bool) {
    namespace support = poptorch::support;
    if (PyBytes_Check(source.ptr())) {
      value.value.assign(PyBytes_AS_STRING(source.ptr()),
                         static_cast<size_t>(PyBytes_GET_SIZE(source.ptr())));
      if (support::find_non_utf8(value.value) == std::string::npos) return true;
      poptorch::bindings::refuse_text(source);
    }
    if (!PyUnicode_Check(source.ptr())) return false;
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(source.ptr(), &size);
    if (!data) {
      PyErr_Clear();
      poptorch::bindings::refuse_text(source);
    }
    value.value.assign(data, static_cast<size_t>(size));
    return true;
  }

  static handle cast(const poptorch::bindings::Text& text, return_value_policy, handle) {
    return pybind11::str(text.value).release();
  }
};
