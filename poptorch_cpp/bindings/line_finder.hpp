// The user's line: where in the user's own files Python stands.
#pragma once

#include <Python.h>
// Python.h first; the rest in order.
#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/module.hpp"

namespace poptorch::bindings {

// Finds the innermost Python frame outside the excluded files. Verdicts are cached per code object,
// which the finder keeps alive.
class LineFinder {
 public:
  // excludes: parts of the names of files that are not the user's.
  explicit LineFinder(std::vector<std::string> excludes) : excludes_(std::move(excludes)) {}

  ir::Location operator()();
  // The innermost user line of a traceback.
  ir::Location of_traceback(pybind11::handle traceback);

 private:
  const std::optional<support::Symbol>& user_file(PyFrameObject* frame);
  bool excluded(const std::string& name) const;

  std::vector<std::string> excludes_;
  std::unordered_map<PyObject*, std::pair<pybind11::object, std::optional<support::Symbol>>> files_;
};

}  // namespace poptorch::bindings
