// Lists the members of torch.nn.Module as its named_modules() and similar generators do. These pass
// each item through all levels of a model, and a compilation lists members many times.
#include "bindings/torch_members.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/torch_attributes.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

// The dictionaries of a module.
enum Kind : size_t { kModules, kParameters, kBuffers, kKinds };
constexpr std::array kNames = {"_modules", "_parameters", "_buffers"};

PyObject* name_of(size_t kind) {
  static const std::array<PyObject*, kKinds> names = {
      PyUnicode_InternFromString(kNames[kModules]), PyUnicode_InternFromString(kNames[kParameters]),
      PyUnicode_InternFromString(kNames[kBuffers])};
  return names[kind];
}

py::object concatenated(py::handle start, py::handle end) {
  auto text = py::reinterpret_steal<py::object>(PyUnicode_Concat(start.ptr(), end.ptr()));
  if (!text) throw py::error_already_set();
  return text;
}

// Returns what the paths of a module's members begin with.
py::object prefix_of(py::handle path) {
  static PyObject* const dot = PyUnicode_InternFromString(".");
  if (PyUnicode_GetLength(path.ptr()) == 0) return py::reinterpret_borrow<py::object>(path);
  return concatenated(path, dot);
}

// Returns a dictionary of a module, or null if the module has none of this kind. Those of a
// subclass may list their items in another order.
PyObject* members_of(py::handle attributes, size_t kind) {
  PyObject* found = PyDict_GetItemWithError(attributes.ptr(), name_of(kind));
  if (!found && PyErr_Occurred()) throw py::error_already_set();
  return found && PyDict_CheckExact(found) ? found : nullptr;
}

// A module at its first place in a model, and what its dictionaries held.
struct Seen {
  using Entries = std::vector<std::pair<py::object, py::object>>;

  py::object module, path;
  py::object type;  // keeps the class, so that no other gets its address
  std::array<Entries, kKinds> members;

  bool has_same_class() const {
    return reinterpret_cast<PyObject*>(Py_TYPE(module.ptr())) == type.ptr();
  }

  bool has_same_members() const {
    const py::dict attributes = attributes_of(module);
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (!is_same(members_of(attributes, kind), members[kind])) return false;
    }
    return true;
  }

  // Adds (module, name of the dictionary, what it held) for each changed one of tensors.
  void add_changed(py::list& changed) const {
    const py::dict attributes = attributes_of(module);
    for (const Kind kind : {kBuffers, kParameters}) {
      if (is_same(members_of(attributes, kind), members[kind])) continue;
      py::dict held;
      for (const auto& [name, member] : members[kind]) held[name] = member;
      changed.append(py::make_tuple(module, py::handle(name_of(kind)), held));
    }
  }

 private:
  static bool is_same(PyObject* now, const Entries& entries) {
    if (!now || static_cast<size_t>(PyDict_Size(now)) != entries.size()) return false;
    PyObject *name, *member;
    Py_ssize_t at = 0;
    for (const auto& entry : entries) {
      if (!PyDict_Next(now, &at, &name, &member)) return false;
      if (name != entry.first.ptr() || member != entry.second.ptr()) return false;
    }
    return true;
  }
};

using AllSeen = std::vector<Seen>;

// The parameters and buffers that all modules of a model had at one time.
class HeldMembers {
 public:
  explicit HeldMembers(std::shared_ptr<const AllSeen> seen) : seen_(std::move(seen)) {}

  py::list changed() const {
    py::list found;
    for (const Seen& seen : *seen_) seen.add_changed(found);
    return found;
  }

 private:
  std::shared_ptr<const AllSeen> seen_;
};

// A list for named_modules() and the like: pairs of path and member.
class Pairs {
 public:
  explicit Pairs(bool duplicates) : duplicates_(duplicates) {}

  void add(const py::object& path, const py::object& member) {
    if (member.is_none() || (!duplicates_ && !seen_.insert(member.ptr()).second)) return;
    found_.append(py::make_tuple(path, member));
  }
  const py::list& found() const { return found_; }

 private:
  bool duplicates_;
  std::unordered_set<PyObject*> seen_;
  py::list found_;
};

// The lists of one model's members. They are made in one walk, and again only if one of the
// dictionaries has changed since.
class MemberLists {
 public:
  // is_plain: returns whether modules of a class keep their members as torch.nn.Module does.
  MemberLists(py::object model, py::function is_plain)
      : model_(std::move(model)), is_plain_(std::move(is_plain)) {}

  // Returns a list of pairs of path and member, which the caller must not change; or None if the
  // model must be asked instead. is_unchanged: no module has changed since the last call.
  py::object listed(const std::string& kind, bool duplicates, bool is_unchanged) {
    const auto chosen =
        static_cast<size_t>(std::find(kNames.begin(), kNames.end(), kind) - kNames.begin());
    if (chosen == kKinds) {
      throw py::value_error("MemberLists lists _modules, _parameters or _buffers, not '" + kind +
                            "'");
    }
    if (!is_known(is_unchanged)) walk_again();
    if (!is_plain_model_) return py::none();
    auto& known = lists_.at((chosen * 2) + (duplicates ? 1 : 0));
    if (!known) known = pairs_of(chosen, duplicates);
    return *known;
  }

  // Returns what the model holds now, or nothing if that is not known.
  std::optional<HeldMembers> held(bool is_unchanged) {
    if (!is_known(is_unchanged)) walk_again();
    if (!is_plain_model_) return std::nullopt;
    return HeldMembers(seen_);
  }

 private:
  bool is_known(bool is_unchanged) const {
    return !seen_->empty() && (is_unchanged || std::ranges::all_of(*seen_, [&](Seen& seen) {
                                 return keeps_plain_class(seen) && seen.has_same_members();
                               }));
  }

  // Wrappers change the class of a model without changing how it keeps its members.
  bool keeps_plain_class(Seen& seen) const {
    if (seen.has_same_class()) return true;
    if (!py::cast<bool>(is_plain_(py::type::handle_of(seen.module)))) return false;
    seen.type = py::type::of(seen.module);
    return true;
  }

  void walk_again() {
    lists_ = {};
    numbers_.clear();
    plain_.clear();
    // Members that the lists held may run code of the user when they end.
    const auto ended = std::exchange(seen_, std::make_shared<AllSeen>());
    is_plain_model_ = walk(model_, py::str(""));
    if (!is_plain_model_) seen_->clear();
  }

  // Adds a module and all modules inside. Returns false if one keeps its members in another way.
  bool walk(const py::object& module, py::object path) {
    if (!numbers_.try_emplace(module.ptr(), seen_->size()).second) return true;
    if (!has_plain_class(module)) return false;
    const size_t number = seen_->size();
    seen_->push_back({module, path, py::type::of(module), {}});
    const py::dict attributes = attributes_of(module);
    for (size_t kind = 0; kind < kKinds; ++kind) {
      PyObject* members = members_of(attributes, kind);
      if (!members) return false;
      PyObject *name, *member;
      for (Py_ssize_t at = 0; PyDict_Next(members, &at, &name, &member);) {
        if (!PyUnicode_Check(name)) return false;
        (*seen_)[number].members[kind].emplace_back(py::reinterpret_borrow<py::object>(name),
                                                    py::reinterpret_borrow<py::object>(member));
      }
    }
    // The walk moves elements of `seen_`, but not what their vectors hold.
    const std::span children((*seen_)[number].members[kModules]);
    if (children.empty()) return true;
    const Nested nested;
    const py::object prefix = prefix_of(path);
    for (const auto& [name, child] : children) {
      if (child.is_none()) continue;
      if (!walk(child, concatenated(prefix, name))) return false;
    }
    return true;
  }

  // Raises RecursionError in a model that is too deep.
  struct Nested {
    Nested() {
      if (Py_EnterRecursiveCall(" while listing the modules of a model")) {
        throw py::error_already_set();
      }
    }
    ~Nested() { Py_LeaveRecursiveCall(); }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
  };

  bool has_plain_class(py::handle module) {
    const auto [known, is_new] = plain_.try_emplace(Py_TYPE(module.ptr()), false);
    if (is_new) known->second = py::cast<bool>(is_plain_(py::type::handle_of(module)));
    return known->second;
  }

  py::list pairs_of(size_t kind, bool duplicates) const {
    Pairs pairs(duplicates);
    const auto add = [&](const Seen& seen, const py::object& path) {
      if (kind == kModules) return pairs.add(path, seen.module);
      if (seen.members[kind].empty()) return;
      const py::object prefix = prefix_of(path);
      for (const auto& [name, tensor] : seen.members[kind]) {
        if (!tensor.is_none()) pairs.add(concatenated(prefix, name), tensor);
      }
    };
    if (duplicates) {
      add_all(seen_->front(), seen_->front().path, add);
    } else {
      for (const Seen& seen : *seen_) add(seen, seen.path);
    }
    return pairs.found();
  }

  // Calls `add` for a module and all modules inside, at each of their places.
  template <typename Add>
  void add_all(const Seen& seen, const py::object& path, const Add& add) const {
    add(seen, path);
    if (seen.members[kModules].empty()) return;
    const Nested nested;
    const py::object prefix = prefix_of(path);
    for (const auto& [name, child] : seen.members[kModules]) {
      if (child.is_none()) continue;
      add_all((*seen_)[numbers_.at(child.ptr())], concatenated(prefix, name), add);
    }
  }

  py::object model_;
  py::function is_plain_;
  bool is_plain_model_ = false;
  std::shared_ptr<AllSeen> seen_ = std::make_shared<AllSeen>();
  std::unordered_map<PyObject*, size_t> numbers_;  // in `seen_`, by module
  std::unordered_map<PyTypeObject*, bool> plain_;
  std::array<std::optional<py::list>, kKinds * 2> lists_;  // by kind, without and with duplicates
};

}  // namespace

void bind_members(py::module_& m) {
  py::class_<HeldMembers>(m, "HeldMembers").def("changed", &HeldMembers::changed);
  py::class_<MemberLists>(m, "MemberLists")
      .def(py::init<py::object, py::function>(), py::arg("model"), py::arg("is_plain"))
      .def("listed", &MemberLists::listed, py::arg("kind"), py::arg("duplicates") = false,
           py::arg("is_unchanged") = false)
      .def("held", &MemberLists::held, py::arg("is_unchanged") = false);
}

}  // namespace poptorch::bindings
