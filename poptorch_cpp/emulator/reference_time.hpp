// The account of the time that runs spend in reference kernels. What takes a good part of a run is
// said once, for its user can do without it but cannot see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace poptorch::emulator {

class ReferenceTime {
 public:
  // The ops that have reference kernels in the code; kernels of one op are one.
  explicit ReferenceTime(std::vector<std::string> ops);

  void add(int32_t op, double seconds) {  // from any thread
    run_[static_cast<size_t>(op)].fetch_add(static_cast<int64_t>(seconds * 1e9),
                                            std::memory_order_relaxed);
  }
  bool empty() const { return ops_.empty(); }
  // A run of `seconds` on `lanes` threads that run machines is over.
  void finish_run(double seconds, int lanes);
  // By op: the share of the time of all runs so far.
  std::vector<std::pair<std::string, double>> shares() const;

 private:
  std::vector<std::string> ops_;
  std::vector<std::atomic<int64_t>> run_;  // nanoseconds of the run, by op
  std::vector<double> all_;                // seconds of all runs, by op
  std::vector<bool> told_;
  double seconds_ = 0;  // of all runs and lanes
};

}  // namespace poptorch::emulator
