// The one wrapper around every pass: skips it when it is disabled by name, times it, runs it,
// verifies the module, prints it when it changed and someone asked, and adds the pass's name to
// errors.
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

// Every pass that the pipeline or a golden test may name: those of transforms and partition.
// UserError naming the closest when there is no such pass.
const transforms::PassRow& find_pass(std::string_view name);

// Of all its graphs.
int64_t ops_of(const ir::Module& module);

class PassRunner {
 public:
  // `steps`: how many steps the progress bar has in all.
  PassRunner(Progress progress, int steps);

  void run(std::string_view pass, ir::Module& module);
  // Likewise; with POPTORCH_REPARSE the module is then what is read from its text.
  void run(std::string_view pass, std::unique_ptr<ir::Module>& module);
  // Anything that is no pass but takes time: calls `work` as step `name`.
  template <typename Work>
  auto step(std::string_view name, Work work) {
    Timed timed(*this, name);
    return work();
  }

  // What is compiled now has so many ops, or instructions, from the end of the last step on.
  void note_size(int64_t ops);
  // Of the steps so far.
  const std::vector<PassRecord>& records() const { return records_; }

  // Runs the verifier as a part of a step.
  void verify(const ir::Module& module);
  // With POPTORCH_REPARSE: from its text.
  program::Program read_again(program::Program program, const ir::Registry& registry) const;
  // Tells the log what verifying took of this thread's time since the runner was made.
  void log_verifying() const;

 private:
  // Tells the progress, the log and the records about a step.
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
  int steps_;
  int done_ = 0;
  double start_, verify_seconds_ = 0;
  int64_t ops_ = 0;
  std::vector<PassRecord> records_;
  std::set<std::string> disabled_;  // POPTORCH_DISABLE_PASSES, comma-separated
  std::set<std::string> dumped_;    // POPTORCH_DUMP: names of passes, or "all"
  bool reparses_;                   // POPTORCH_REPARSE
};

}  // namespace poptorch::compile
