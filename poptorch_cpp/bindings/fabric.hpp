// Binds the fabrics that join the instances of a program, for Python.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "emulator/transport/fabric.hpp"

namespace poptorch::bindings {

// Binds Fabric and make_shared_fabric().
void bind_fabric(pybind11::module_& m);

// Returns the same fabric; its destruction, which may wait for other instances, releases the GIL.
inline std::shared_ptr<emulator::Fabric> ending_without_gil(
    std::shared_ptr<emulator::Fabric> fabric) {
  emulator::Fabric* const same = fabric.get();
  return {same, [fabric = std::move(fabric)](emulator::Fabric*) mutable {
            if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return fabric.reset();
            const pybind11::gil_scoped_release released;
            fabric.reset();
          }};
}

}  // namespace poptorch::bindings
