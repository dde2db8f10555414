// Walks Python's frames and tracebacks.
#include "bindings/line_finder.hpp"

#include <frameobject.h>

namespace poptorch::bindings {

namespace py = pybind11;
using support::Symbol;

ir::Location LineFinder::operator()() {
  const py::gil_scoped_acquire gil;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    if (const auto file = user_file(raw)) return {*file, PyFrame_GetLineNumber(raw)};
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return {};
}

ir::Location LineFinder::of_traceback(py::handle traceback) {
  ir::Location found;
  for (auto* at = reinterpret_cast<PyTracebackObject*>(traceback.ptr());
       at && reinterpret_cast<PyObject*>(at) != Py_None; at = at->tb_next) {
    if (const auto file = user_file(at->tb_frame)) {
      const auto line =
          py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(at)).attr("tb_lineno");
      found = {*file, line.cast<int>()};
    }
  }
  return found;
}

const std::optional<Symbol>& LineFinder::user_file(PyFrameObject* frame) {
  auto code =
      py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  const auto known = files_.find(code.ptr());
  if (known != files_.end()) return known->second.second;
  // A path may contain invalid UTF-8.
  const auto name = code.attr("co_filename").attr("encode")("utf-8", "replace").cast<std::string>();
  std::optional<Symbol> file;
  if (!excluded(name)) file = Symbol(name);
  PyObject* key = code.ptr();
  return files_.emplace(key, std::pair(std::move(code), file)).first->second.second;
}

bool LineFinder::excluded(const std::string& name) const {
  if (name.starts_with("<")) return true;
  for (const auto& part : excludes_) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace poptorch::bindings
