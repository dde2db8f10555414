#include "bindings/core_files.hpp"

#include <memory>

#include "bindings/text.hpp"
#include "support/whole_file.hpp"

namespace poptorch::bindings {

namespace py = pybind11;

void bind_files(py::module_& m) {
  using support::WholeFile;
  py::class_<WholeFile>(m, "WholeFile",
                        "A file that is written under a temporary name and then takes its place.")
      .def(py::init([](const Text& path, const Text& tag) {
             return std::make_unique<WholeFile>(path.value, tag.value);
           }),
           py::arg("path"), py::arg("tag"))
      .def("write",
           [](WholeFile& file, const py::memoryview& data) {
             const Py_buffer* held = PyMemoryView_GET_BUFFER(data.ptr());
             const py::gil_scoped_release unlocked;
             file.write(held->buf, static_cast<size_t>(held->len));
           })
      .def("commit", &WholeFile::commit, py::call_guard<py::gil_scoped_release>())
      .def("discard", &WholeFile::discard);
}

}  // namespace poptorch::bindings
