#include "bindings/fabric.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <variant>

#include "bindings/watched.hpp"
#include "emulator/transport/shared_fabric.hpp"

namespace poptorch::bindings {

namespace py = pybind11;
using emulator::Fabric;

void bind_fabric(py::module_& m) {
  py::class_<Fabric, std::shared_ptr<Fabric>>(
      m, "Fabric",
      "Connects this process to the other instances of a program. It is passed as host['fabric'].")
      .def_property_readonly("instances", &Fabric::instances)
      .def_property_readonly("instance", &Fabric::instance)
      .def("name", &Fabric::name, "'instance 1 on node7 (process 4711)'.", py::arg("instance"))
      .def("end_of", &Fabric::end_of,
           "The evidence that an instance has ended; '' if it may still run.", py::arg("instance"))
      .def("leave", &Fabric::leave, py::call_guard<py::gil_scoped_release>(),
           "Disconnects from the other instances. Waits some seconds for them to receive what was "
           "sent.");
  m.def(
      "make_shared_fabric",
      [](const std::variant<int, std::string>& place, int instance, int instances, double timeout,
         const std::vector<int>& numbers) -> std::shared_ptr<Fabric> {
        return watched([&] {
          return std::visit(
              [&](const auto& where) {
                return ending_without_gil(
                    emulator::make_shared_fabric(where, instance, instances, timeout, numbers));
              },
              place);
        });
      },
      "Connects this process, as `instance` of `instances`, to the others of this host that use "
      "the same place: the path of a new file in a folder in memory, or an open, empty file of "
      "memfd_create. Waits at most `timeout` seconds until all have joined (0: without limit). "
      "`numbers`: the numbers of these instances among all instances, for messages.",
      py::arg("place"), py::arg("instance"), py::arg("instances"), py::arg("timeout") = 300.0,
      py::arg("numbers") = std::vector<int>());
}

}  // namespace poptorch::bindings
