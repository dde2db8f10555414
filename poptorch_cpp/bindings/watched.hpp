// Runs work without the GIL that a program can stop. In the main thread, a signal whose Python
// handler raises stops it; in other threads, the program's end does. Both Python modules use it.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <utility>

#include "support/watch.hpp"

namespace poptorch::bindings {

// Decides when one thread's work stops. Its construction and destruction require the GIL.
class Stops {
 public:
  Stops();
  ~Stops();
  Stops(const Stops&) = delete;
  Stops& operator=(const Stops&) = delete;

  // Returns whether the work should end. Must be called without the GIL.
  bool operator()();
  // Rethrows the exception that a signal's handler raised, if any.
  void rethrow() const;

 private:
  bool in_main_thread_;
  std::exception_ptr raised_;
};

// Calls `work` without the GIL. Raises the exception of a signal's handler, or poptorch.Error when
// the program ends. Only `work` is interrupted.
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

// Translates support::Interrupted to poptorch.Error, and ends the work of all other threads when
// the program ends. A thread still at work then would block its end, or crash it.
void register_watched();

}  // namespace poptorch::bindings
