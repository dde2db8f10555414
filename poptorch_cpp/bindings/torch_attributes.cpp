// Filters and compares the attributes of modules. Every module has more than ten that torch made,
// nearly all of them empty, and each trace looks at all of them several times.
#include "bindings/torch_attributes.hpp"

namespace py = pybind11;

namespace poptorch::bindings {

py::dict attributes_of(py::handle object) {
  auto found = py::reinterpret_steal<py::dict>(PyObject_GenericGetDict(object.ptr(), nullptr));
  if (!found) throw py::error_already_set();
  return found;
}

namespace {

bool contains(const py::frozenset& set, PyObject* value) {
  const int found = PySet_Contains(set.ptr(), value);
  if (found < 0) throw py::error_already_set();
  return found == 1;
}

// Subclasses of these may have attributes, so they never count as empty.
bool is_empty_container(PyObject* value) {
  PyTypeObject* const type = Py_TYPE(value);
  if (type == &PyDict_Type || type == &PyODict_Type) return PyDict_Size(value) == 0;
  if (type == &PyList_Type) return PyList_GET_SIZE(value) == 0;
  if (type == &PyTuple_Type) return PyTuple_GET_SIZE(value) == 0;
  return type == &PySet_Type && PySet_GET_SIZE(value) == 0;
}

py::list held_values(const py::list& objects, const py::frozenset& names,
                     const py::frozenset& types) {
  py::list found;
  for (const py::handle object : objects) {
    const py::dict attributes = attributes_of(object);
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &name, &value);) {
      if (is_empty_container(value) || contains(names, name)) continue;
      if (!contains(types, reinterpret_cast<PyObject*>(Py_TYPE(value)))) found.append(value);
    }
  }
  return found;
}

// Calls `use` with the name and value of each attribute that has none of the names.
template <typename Use>
void for_each_beside(py::handle object, const py::frozenset& names, const Use& use) {
  const py::dict attributes = attributes_of(object);
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &name, &value);) {
    if (!contains(names, name)) use(name, value);
  }
}

void set_item(const py::dict& dict, PyObject* name, PyObject* value) {
  if (PyDict_SetItem(dict.ptr(), name, value) != 0) throw py::error_already_set();
}

py::dict attributes_beside(py::handle object, const py::frozenset& names) {
  py::dict found;
  for_each_beside(object, names,
                  [&](PyObject* name, PyObject* value) { set_item(found, name, value); });
  return found;
}

py::list attributes_of_all(const py::list& objects, const py::frozenset& names,
                           const py::frozenset& types) {
  py::list found;
  for (const py::handle object : objects) {
    py::dict all;
    py::object others = py::none();
    for_each_beside(object, names, [&](PyObject* name, PyObject* value) {
      set_item(all, name, value);
      if (contains(types, reinterpret_cast<PyObject*>(Py_TYPE(value)))) return;
      if (others.is_none()) others = py::dict();
      set_item(py::reinterpret_borrow<py::dict>(others), name, value);
    });
    found.append(py::make_tuple(all, others));
  }
  return found;
}

// Returns whether an object has exactly these attributes, besides those with one of the names.
bool has_attributes(py::handle object, const py::frozenset& names, const py::dict& attributes) {
  Py_ssize_t count = 0;
  bool same = true;
  for_each_beside(object, names, [&](PyObject* name, PyObject* value) {
    ++count;
    if (!same) return;
    PyObject* found = PyDict_GetItemWithError(attributes.ptr(), name);
    if (!found && PyErr_Occurred()) throw py::error_already_set();
    same = found == value;
  });
  return same && count == PyDict_Size(attributes.ptr());
}

py::set with_other_attributes(const py::list& objects, const py::frozenset& names,
                              const py::list& attributes) {
  py::set found;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (!has_attributes(objects[i], names, attributes[i])) found.add(i);
  }
  return found;
}

bool holds_same_objects(const py::dict& one, const py::dict& other) {
  if (PyDict_Size(one.ptr()) != PyDict_Size(other.ptr())) return false;
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(one.ptr(), &at, &name, &value);) {
    PyObject* found = PyDict_GetItemWithError(other.ptr(), name);
    if (!found && PyErr_Occurred()) throw py::error_already_set();
    if (found != value) return false;
  }
  return true;
}

}  // namespace

void bind_attributes(py::module_& m) {
  m.def("held_values", held_values, py::arg("objects"), py::arg("names"), py::arg("types"),
        "Returns the values of all attributes of objects, except for those with one of the names "
        "or types, and empty containers.");
  m.def("attributes_beside", attributes_beside, py::arg("object"), py::arg("names"),
        "Returns the attributes of an object, except for those with one of the names.");
  m.def("attributes_of_all", attributes_of_all, py::arg("objects"), py::arg("names"),
        py::arg("types"),
        "Returns, for each object, its attributes except for those with one of the names, and "
        "those of them whose values have none of the types, or None if there are none.");
  m.def("with_other_attributes", with_other_attributes, py::arg("objects"), py::arg("names"),
        py::arg("attributes"),
        "Returns the positions of the objects whose attributes, except for those with one of the "
        "names, are not the given ones.");
  m.def("holds_same_objects", holds_same_objects, py::arg("one"), py::arg("other"),
        "Returns whether dictionaries have the same keys, and the identical object for each.");
}

}  // namespace poptorch::bindings
