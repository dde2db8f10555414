#include "bindings/torch_fabric.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/fabric.hpp"
#include "emulator/transport/frame_fabric.hpp"
#include "frontends/torch/gloo_wire.hpp"

namespace py = pybind11;

namespace poptorch::bindings {

using emulator::Fabric;

void bind_wired_fabric(py::module_& m) {
  py::module_::import("poptorch_core._core");  // it defines the type of fabrics
  m.def(
      "make_wired_fabric",
      [](const std::string& group, int instance,
         const std::vector<std::pair<std::string, int>>& instances,
         const std::optional<std::shared_ptr<Fabric>>& local,
         int connections) -> std::shared_ptr<Fabric> {
        auto wires = frontend::wires_of(group, connections);
        std::vector<emulator::Reached> others(instances.size());
        for (size_t i = 0; i < instances.size(); ++i) {
          const auto& [name, local_number] = instances[i];
          others[i] = {name, std::move(wires.at(i)), local_number};
        }
        return ending_without_gil(
            emulator::make_frame_fabric(instance, std::move(others), local.value_or(nullptr)));
      },
      "Connects this process to the other instances of a program over a process group registered "
      "with torch.distributed, and takes ownership of the group. `instances`: for each its name "
      "and its number in `local`, the fabric of the instances on this host; -1 if it is on another "
      "host. `connections`: devices of the group.",
      py::arg("group"), py::arg("instance"), py::arg("instances"), py::arg("local"),
      py::arg("connections"));
}

}  // namespace poptorch::bindings
