// Walks the dictionaries of torch.nn.Module, as its named_modules() and similar generators do.
// These pass each item through all levels of a model, and a compilation lists members many times.
#include "bindings/torch_members.hpp"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

py::object concatenated(py::handle start, py::handle end) {
  auto text = py::reinterpret_steal<py::object>(PyUnicode_Concat(start.ptr(), end.ptr()));
  if (!text) throw py::error_already_set();
  return text;
}

// A module on the way through a model.
struct Member {
  py::handle module;
  py::handle path;
  py::object attributes;  // its __dict__

  // Returns what the paths of its members begin with.
  py::object prefix() const {
    if (PyUnicode_GetLength(path.ptr()) == 0) return py::reinterpret_borrow<py::object>(path);
    return concatenated(path, dot());
  }

  static py::handle dot() {
    static PyObject* text = PyUnicode_InternFromString(".");
    return text;
  }
};

class MemberWalk {
 public:
  // is_plain: returns whether modules of a class keep their members as torch.nn.Module does.
  MemberWalk(py::function is_plain, bool duplicates)
      : is_plain_(std::move(is_plain)), duplicates_(duplicates) {}

  // Calls `see` for a module and all modules inside. Returns false if one of them keeps its members
  // in another way.
  template <typename See>
  bool walk(py::handle module, py::handle path, const See& see) {
    static PyObject* const modules = PyUnicode_InternFromString("_modules");
    if (!duplicates_ && !seen_.insert(module.ptr()).second) return true;
    if (!has_plain_class(module)) return false;
    const Member member{
        module, path,
        py::reinterpret_steal<py::object>(PyObject_GenericGetDict(module.ptr(), nullptr))};
    if (!member.attributes) throw py::error_already_set();
    see(member);
    PyObject* children = PyDict_GetItem(member.attributes.ptr(), modules);
    if (!children || !PyDict_Check(children)) return false;
    if (PyDict_Size(children) == 0) return true;
    if (Py_EnterRecursiveCall(" while listing the modules of a model")) {
      throw py::error_already_set();
    }
    const py::object prefix = member.prefix();
    bool plain = true;
    PyObject *name, *child;
    for (Py_ssize_t at = 0; plain && PyDict_Next(children, &at, &name, &child);) {
      if (child == Py_None) continue;
      plain = PyUnicode_Check(name) && walk(child, concatenated(prefix, name), see);
    }
    Py_LeaveRecursiveCall();
    return plain;
  }

 private:
  bool has_plain_class(py::handle module) {
    const auto [known, is_new] = plain_.try_emplace(Py_TYPE(module.ptr()), false);
    if (is_new) known->second = py::cast<bool>(is_plain_(py::type::handle_of(module)));
    return known->second;
  }

  py::function is_plain_;
  bool duplicates_;
  std::unordered_set<PyObject*> seen_;
  std::unordered_map<PyTypeObject*, bool> plain_;
};

void append(const py::list& found, py::handle name, py::handle member) {
  const auto pair = py::reinterpret_steal<py::object>(PyTuple_Pack(2, name.ptr(), member.ptr()));
  if (!pair || PyList_Append(found.ptr(), pair.ptr()) != 0) throw py::error_already_set();
}

py::object list_modules(const py::object& model, py::function is_plain, bool duplicates) {
  py::list found;
  const auto see = [&](const Member& member) { append(found, member.path, member.module); };
  if (!MemberWalk(std::move(is_plain), duplicates).walk(model, py::str(""), see)) return py::none();
  return found;
}

py::object list_tensors(const py::object& model, const std::string& kind, py::function is_plain,
                        bool duplicates) {
  py::list found;
  std::unordered_set<PyObject*> seen;
  const py::str key(kind);
  bool plain = true;
  const auto see = [&](const Member& member) {
    PyObject* tensors = PyDict_GetItem(member.attributes.ptr(), key.ptr());
    plain = plain && tensors && PyDict_Check(tensors);
    if (!plain || PyDict_Size(tensors) == 0) return;
    const py::object prefix = member.prefix();
    PyObject *name, *tensor;
    for (Py_ssize_t at = 0; PyDict_Next(tensors, &at, &name, &tensor);) {
      if (tensor == Py_None || (!duplicates && !seen.insert(tensor).second)) continue;
      append(found, concatenated(prefix, name), tensor);
    }
  };
  plain = MemberWalk(std::move(is_plain), duplicates).walk(model, py::str(""), see) && plain;
  return plain ? py::object(std::move(found)) : py::none();
}

}  // namespace

void bind_members(py::module_& m) {
  m.def("list_modules", list_modules, py::arg("model"), py::arg("is_plain"),
        py::arg("duplicates") = false);
  m.def("list_tensors", list_tensors, py::arg("model"), py::arg("kind"), py::arg("is_plain"),
        py::arg("duplicates") = false);
}

}  // namespace poptorch::bindings
