// Faults within a compilation: signals that the process sends to itself when one of the passes has
// visited some ops. An op is visited where check_interrupt() is called.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/faults.hpp"

namespace poptorch::support {

// Whether note_visited_op() is wanted in this thread.
inline thread_local bool counts_visited_ops = false;
void note_visited_op();

// Lives as long as a compilation in this thread. An inner one replaces the outer.
class CompilationFaults {
 public:
  CompilationFaults();  // meets FaultPoint::kCompile
  ~CompilationFaults();
  CompilationFaults(const CompilationFaults&) = delete;
  CompilationFaults& operator=(const CompilationFaults&) = delete;

  // UserError when a fault was due in a pass that did not run.
  void finish() const;

 private:
  friend class PassFaults;
  friend void note_visited_op();
  void strike();

  CompilationFaults* outer_;
  std::optional<Fault> due_;  // in a pass that is to come, or runs
  int64_t visited_ = 0;       // ops, by that pass
  std::vector<std::string> passes_;
};

// Lives as long as a pass, in the thread of its compilation, if there is one. The fault of a pass
// that ends before it has visited so many ops strikes at its end.
class PassFaults {
 public:
  explicit PassFaults(std::string_view pass);
  ~PassFaults();
  PassFaults(const PassFaults&) = delete;
  PassFaults& operator=(const PassFaults&) = delete;
};

}  // namespace poptorch::support
