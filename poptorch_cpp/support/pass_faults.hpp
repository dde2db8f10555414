// Faults within a compilation: the process sends itself a signal when one of the passes has visited
// some ops. Each call of check_interrupt() counts as a visited op.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/faults.hpp"

namespace poptorch::support {

// True if this thread has to call note_visited_op().
inline thread_local bool counts_visited_ops = false;
void note_visited_op();

// Lives as long as a compilation in this thread. An inner one replaces the outer one.
class CompilationFaults {
 public:
  CompilationFaults();  // reaches FaultPoint::kCompile
  ~CompilationFaults();
  CompilationFaults(const CompilationFaults&) = delete;
  CompilationFaults& operator=(const CompilationFaults&) = delete;

  bool is_due() const { return due_.has_value(); }  // a fault, in a pass
  // Throws UserError if a fault was due in a pass that did not run.
  void finish() const;

 private:
  friend class PassFaults;
  friend void note_visited_op();
  void strike();

  CompilationFaults* outer_;
  std::optional<Fault> due_;  // in a pass that runs, or is still to run
  int64_t visited_ = 0;       // ops, by that pass
  std::vector<std::string> passes_;
};

// Lives as long as a pass, in the thread of its compilation, if there is one. The fault of a pass
// that visits too few ops strikes at the end of the pass.
class PassFaults {
 public:
  explicit PassFaults(std::string_view pass);
  ~PassFaults();
  PassFaults(const PassFaults&) = delete;
  PassFaults& operator=(const PassFaults&) = delete;
};

}  // namespace poptorch::support
