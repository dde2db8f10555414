// Finds the user's line: the line in the user's files that Python is executing.
#pragma once

#include <Python.h>
// Python.h comes first; the rest is in order.
#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/module.hpp"

namespace poptorch::bindings {

// Finds the innermost Python frame outside the excluded files. Caches the answer per code object,
// which it keeps alive.
class LineFinder {
 public:
  // `excludes` are parts of the names of files that do not belong to the user.
  explicit LineFinder(std::vector<std::string> excludes) : excludes_(std::move(excludes)) {}

  ir::Location operator()();
  // Returns the innermost user line of a traceback.
  ir::Location of_traceback(pybind11::handle traceback);

 private:
  const std::optional<support::Symbol>& user_file(PyFrameObject* frame);
  bool excluded(const std::string& name) const;

  std::vector<std::string> excludes_;
  std::unordered_map<PyObject*, std::pair<pybind11::object, std::optional<support::Symbol>>> files_;
};

}  // namespace poptorch::bindings
