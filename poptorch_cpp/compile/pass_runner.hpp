// The only wrapper around passes: skips a pass that is disabled by name, times it, runs it and
// verifies the module. Prints a changed module on request, and adds the pass's name to errors.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compile/options.hpp"
#include "ir/module.hpp"
#include "program/program.hpp"
#include "support/pass_faults.hpp"
#include "support/regions.hpp"
#include "transforms/passes.hpp"

namespace poptorch::compile {

// Finds any pass that the pipeline or a golden test may name: those of transforms and partition.
// UserError with the closest name for an unknown pass.
const transforms::PassRow& find_pass(std::string_view name);

// Returns the number of ops in all graphs.
int64_t ops_of(const ir::Module& module);

class PassRunner {
 public:
  // Reports progress as a part of `steps` steps.
  PassRunner(Progress progress, int steps);
  // Repeats passes without reports.
  explicit PassRunner(std::set<std::string> disabled);

  void run(std::string_view pass, ir::Module& module);
  // Does the same; with POPTORCH_REPARSE, replaces the module by the one read from its text.
  void run(std::string_view pass, std::unique_ptr<ir::Module>& module);
  // Calls `work` as step `name`: for anything other than a pass that takes time.
  template <typename Work>
  auto step(std::string_view name, Work work) {
    Timed timed(*this, name);
    return work();
  }

  const std::set<std::string>& disabled() const { return disabled_; }
  // Sets the number of ops, or instructions, from the end of the last step on.
  void note_size(int64_t ops);
  // Returns the records of the steps so far.
  const std::vector<PassRecord>& records() const { return records_; }

  // Runs the verifier as a part of a step.
  void verify(const ir::Module& module);
  // Returns the program read from its text with POPTORCH_REPARSE, else the program itself.
  program::Program read_again(program::Program program, const ir::Registry& registry) const;
  // Logs how much of this thread's CPU time since construction verifying took.
  void log_verifying() const;

 private:
  // Reports a step to the progress bar, the log and the records.
  class Timed {
   public:
    Timed(PassRunner& runner, std::string_view name);
    ~Timed();

   private:
    PassRunner& runner_;
    std::string name_;
    double start_;
    support::Region region_;
    support::PassFaults faults_;
  };

  Progress progress_;
  int steps_ = 0;
  int done_ = 0;
  double start_, verify_seconds_ = 0;
  int64_t ops_ = 0;
  std::vector<PassRecord> records_;
  std::set<std::string> disabled_;  // POPTORCH_DISABLE_PASSES, comma-separated
  std::set<std::string> dumped_;    // POPTORCH_DUMP: names of passes, or "all"
  bool reparses_ = false;           // POPTORCH_REPARSE
};

}  // namespace poptorch::compile
