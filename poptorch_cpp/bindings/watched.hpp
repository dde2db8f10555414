// Work without the GIL that a program can stop: by a signal whose Python handler raises, which runs
// in the main thread, and by its own end, in other threads. Shared by the Python modules.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <utility>

#include "support/watch.hpp"

namespace poptorch::bindings {

// What stops the work of one thread. Made and destroyed with the GIL.
class Stops {
 public:
  Stops();
  ~Stops();
  Stops(const Stops&) = delete;
  Stops& operator=(const Stops&) = delete;

  // Without the GIL: whether the work should end.
  bool operator()();
  // Raises what a handler raised, if one did.
  void rethrow() const;

 private:
  bool in_main_thread_;
  std::exception_ptr raised_;
};

// Calls `work` without the GIL. Raises what a signal's handler raises, or poptorch.Error when the
// program ends; while it waits for that, nothing is cut short but `work`.
template <typename Work>
auto watched(Work&& work) {
  Stops stops;
  try {
    support::Watch watch([&stops] { return stops(); });
    const pybind11::gil_scoped_release release;
    return work();
  } catch (...) {
    stops.rethrow();
    throw;
  }
}

// Makes support::Interrupted a poptorch.Error, and ends the work of all other threads when the
// program ends: a thread that is still inside then would keep it from ending, or crash it.
void register_watched();

}  // namespace poptorch::bindings
