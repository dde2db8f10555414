#include "partition/stages.hpp"

#include <algorithm>
#include <map>

#include "ir/execution.hpp"
#include "partition/place.hpp"
#include "support/error.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Value;
using support::str;
using support::UserError;

class Stages {
 public:
  explicit Stages(ir::Module& module) : main_(module.main()) {}

  // Returns the number of forward stages after merging.
  int64_t collect() {
    for (const Op* op : main_.ops()) {
      if (!is_inner(*op) || op->placement.stage < 0) continue;
      int& lowest = lowest_.emplace(op->placement.ipu, op->placement.stage).first->second;
      lowest = std::min(lowest, op->placement.stage);
    }
    for (const Op* op : main_.ops()) {
      if (!is_inner(*op)) continue;
      if (is_backward(*op)) backward_.insert(op);
      auto [it, is_new] = first_.emplace(stated(*op), op);
      if (!is_new && it->second->placement.ipu != op->placement.ipu) {
        refuse_two_ipus(*it->second, *op);
      }
    }
    int64_t count = 0;
    int last_ipu = -1;
    for (const auto& [stage, op] : first_) {
      count += op->placement.ipu != last_ipu;
      last_ipu = op->placement.ipu;
      number_[stage] = static_cast<int>(count) - 1;
    }
    return count;
  }

  bool are_named() const { return !lowest_.empty(); }

  void check_order() const {
    for (const Op* op : main_.ops()) {
      if (!is_inner(*op) || backward_.contains(op)) continue;
      for (const Value* value : op->operands()) {
        const Op* producer = value ? value->producer() : nullptr;
        if (!producer || !is_inner(*producer) || backward_.contains(producer)) continue;
        if (number_.at(stated(*producer)) > number_.at(stated(*op))) refuse_order(*op, *producer);
      }
    }
  }

  void check_micro_batches(int64_t count, const ir::Execution& execution) const {
    const int64_t all = 2 * count - 1;
    if (execution.training && execution.gradient_accumulation < all) {
      refuse_count(
          str("poptorch.Options().Training.gradientAccumulation must be greater than or equal to "
              "the number of pipeline stages (",
              all, ") when using poptorch.PipelinedExecution. Please note that a model with ",
              count, " pipeline stages in PopTorch will have an additional ", count - 1,
              " stages when training."),
          execution.gradient_accumulation, all);
    }
    if (!execution.training && execution.device_iterations < count) {
      refuse_count(
          str("poptorch.Options().deviceIterations must be greater than or equal to the number of "
              "pipeline stages (",
              count, ") when using PopTorch.PipelinedExecution."),
          execution.device_iterations, count);
    }
  }

  void renumber(int64_t count) {
    for (Op* op : main_.ops()) {
      if (!has_place(*op)) continue;
      if (!is_inner(*op)) {
        op->placement.stage = -1;
        continue;
      }
      const int stage = number_.at(stated(*op));
      op->placement.stage =
          backward_.contains(op) ? static_cast<int>(2 * (count - 1)) - stage : stage;
    }
  }

 private:
  // Returns the stage that the user's annotation gives the op.
  int stated(const Op& op) const {
    if (op.placement.stage >= 0) return op.placement.stage;
    auto it = lowest_.find(op.placement.ipu);
    return it == lowest_.end() ? op.placement.ipu : it->second;
  }

  // Whether the op is backward, as are ops that rewriting made of backward values.
  bool is_backward(const Op& op) const {
    if (op.forward_id != 0) return true;
    for (const Value* value : op.operands()) {
      if (value && value->producer() && backward_.contains(value->producer())) return true;
    }
    return false;
  }

  [[noreturn]] void refuse_two_ipus(const Op& first, const Op& second) const {
    throw UserError(str("[pipeline] stage ", stated(first), " is on IPU ", first.placement.ipu,
                        ", by ", describe(first), ", and on IPU ", second.placement.ipu, ", by ",
                        describe(second), ". A stage runs on one IPU: give its blocks one ipu_id, ",
                        "or separate stages (AutoStage.AutoIncrement)."));
  }

  [[noreturn]] void refuse_order(const Op& op, const Op& producer) const {
    throw UserError(str("[pipeline] ", describe(op), " is in stage ", stated(op),
                        " but uses the result of ", describe(producer), " of stage ",
                        stated(producer),
                        ". Stages must not go backwards; move the Block, set another ipu_id, or "
                        "let stages count up (AutoStage.AutoIncrement)."));
  }

  // Raises UserError with the demand, the micro-batches that there are, and the first op of the
  // last stage.
  [[noreturn]] void refuse_count(const std::string& demand, int64_t found, int64_t needed) const {
    const int last = number_.rbegin()->second;
    const auto stage = std::find_if(number_.begin(), number_.end(),
                                    [&](const auto& entry) { return entry.second == last; });
    throw UserError(str(demand, " It is ", found, ": raise it to ", needed,
                        ", or use poptorch.ShardedExecution. The last stage begins with ",
                        describe(*first_.at(stage->first)), "."));
  }

  ir::Graph& main_;
  std::map<int, int> lowest_;       // by IPU: the lowest stage that an op names
  std::map<int, const Op*> first_;  // by stated stage: its first op
  std::map<int, int> number_;       // by stated stage: the merged stage
  support::FlatSet<const Op*> backward_;
};

}  // namespace

void assign_stages(ir::Module& module) {
  ir::Execution& execution = module.execution();
  Stages stages(module);
  const int64_t count = stages.collect();
  if (count > 1) {
    stages.check_order();
    stages.check_micro_batches(count, execution);
  }
  if (count > 1 || stages.are_named()) stages.renumber(count);
  execution.forward_stages = count;
}

}  // namespace poptorch::partition
