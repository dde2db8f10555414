#include "support/pass_faults.hpp"

#include <utility>

#include "support/strings.hpp"

namespace poptorch::support {
namespace {

thread_local CompilationFaults* compilation_of_thread = nullptr;

}  // namespace

CompilationFaults::CompilationFaults()
    : outer_(compilation_of_thread), due_(due_fault(FaultPoint::kCompile)) {
  if (due_ && due_->place.empty()) support::strike(*std::exchange(due_, std::nullopt));
  compilation_of_thread = this;
}

CompilationFaults::~CompilationFaults() {
  counts_visited_ops = false;
  compilation_of_thread = outer_;
}

void CompilationFaults::finish() const {
  if (!due_) return;
  const std::string near = closest_name(due_->place, passes_);
  throw UserError(
      str("[faults] '", due_->text, "': no pass '", due_->place, "' has run in this compilation.",
          near.empty() ? "" : str(" Did you mean ", near, "?"),
          passes_.empty() ? " None has: the program came from a file or the cache." : ""));
}

void CompilationFaults::strike() {
  counts_visited_ops = false;
  send_signal(*std::exchange(due_, std::nullopt));
}

void note_visited_op() {
  CompilationFaults& here = *compilation_of_thread;
  if (++here.visited_ > here.due_->index) here.strike();
}

PassFaults::PassFaults(std::string_view pass) {
  CompilationFaults* here = compilation_of_thread;
  if (!here || !here->due_) return;
  here->passes_.emplace_back(pass);
  if (here->due_->place != pass) return;
  here->visited_ = 0;
  counts_visited_ops = true;
}

PassFaults::~PassFaults() {
  if (counts_visited_ops) compilation_of_thread->strike();
}

}  // namespace poptorch::support
