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
    run_[static_cast<size_t>(op)].fetch_add(nanoseconds(seconds), std::memory_order_relaxed);
  }
  bool empty() const { return ops_.empty(); }
  // A run of `seconds` on `lanes` threads that run machines is over.
  void finish_run(double seconds, int lanes);
  // By op: the share of the time of all runs so far. From any thread, during a run as well.
  std::vector<std::pair<std::string, double>> shares() const;

 private:
  static int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

  std::vector<std::string> ops_;
  // Nanoseconds by op: of the run, and of all runs; then of all lanes of these.
  std::vector<std::atomic<int64_t>> run_, all_;
  std::atomic<int64_t> whole_{0};
  std::vector<bool> told_;
};

}  // namespace poptorch::emulator
