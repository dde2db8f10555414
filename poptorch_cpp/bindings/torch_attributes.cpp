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

py::dict attributes_beside(py::handle object, const py::frozenset& names) {
  py::dict found;
  const py::dict attributes = attributes_of(object);
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &name, &value);) {
    if (contains(names, name)) continue;
    if (PyDict_SetItem(found.ptr(), name, value) != 0) throw py::error_already_set();
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
  m.def("holds_same_objects", holds_same_objects, py::arg("one"), py::arg("other"),
        "Returns whether dictionaries have the same keys, and the identical object for each.");
}

}  // namespace poptorch::bindings
