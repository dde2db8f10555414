// Measures the time that runs spend in reference kernels. An op that takes a large part of a run is
// logged once: the user can avoid the op, but cannot otherwise see its cost.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace poptorch::emulator {

class ReferenceTime {
 public:
  // `ops` are the ops that have reference kernels in the code. Kernels of one op share an entry.
  explicit ReferenceTime(std::vector<std::string> ops);

  void add(int32_t op, double seconds) {  // from any thread
    run_[op].fetch_add(nanoseconds(seconds), std::memory_order_relaxed);
  }
  bool empty() const { return ops_.empty(); }
  // Ends a run that took `seconds` on `lanes` threads that run machines.
  void finish_run(double seconds, int lanes);
  // Returns each op's share of the time of all runs so far. May be called from any thread, also
  // during a run.
  std::vector<std::pair<std::string, double>> shares() const;

 private:
  static int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

  std::vector<std::string> ops_;
  // Nanoseconds by op, in the current run and in all runs; `whole_`: of all lanes in all runs.
  std::vector<std::atomic<int64_t>> run_, all_;
  std::atomic<int64_t> whole_{0};
  std::vector<bool> told_;
};

}  // namespace poptorch::emulator
