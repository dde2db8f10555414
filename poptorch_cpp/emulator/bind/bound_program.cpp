#include "emulator/bind/bound_program.hpp"

#include <utility>

#include "emulator/bind/bind.hpp"
#include "emulator/bind/keep_values.hpp"

namespace poptorch::emulator {
namespace {

// Adds `shift` to the numbers of a chain's instructions.
void renumber(ChainSpec& chain, int32_t shift) {
  for (ChainSpec::Op& op : chain.ops) op.instruction += shift;
}

void renumber(KernelSpec& spec, int32_t shift) {
  if (auto* op = std::get_if<OpSpec>(&spec)) {
    op->instruction += shift;
    if (op->epilogue) renumber(*op->epilogue, shift);
  } else if (auto* chain = std::get_if<ChainSpec>(&spec)) {
    renumber(*chain, shift);
  } else if (auto* rows = std::get_if<RowsSpec>(&spec)) {
    for (RowsMember& member : rows->members) {
      if (auto* op = std::get_if<OpSpec>(&member)) op->instruction += shift;
      if (auto* chain = std::get_if<ChainSpec>(&member)) renumber(*chain, shift);
    }
  }
}

// Puts the steps inside a loop, or takes them out of it. The loop's step is the first, and its
// counter too, so that steps, counters and instructions have other numbers afterwards.
class LoopChange {
 public:
  LoopChange(Code& code, int64_t from, int64_t to)
      : code_(code),
        ipu_(code.ipus[0]),
        to_(to),
        had_loop_(from > 1),
        shift_(static_cast<int32_t>(to > 1) - static_cast<int32_t>(from > 1)) {}

  void run() {
    const program::Instruction* loop = to_ > 1 ? &code_.program->ipus[0].body.front() : nullptr;
    std::vector<Step> steps;
    steps.reserve(ipu_.steps.size() + 2);
    if (loop) steps.push_back(begin());
    const size_t first = had_loop_, end = ipu_.steps.size() - 1 - first;
    for (size_t i = first; i < end; ++i) steps.push_back(shifted(ipu_.steps[i]));
    if (loop) steps.push_back(end_of(*loop));
    if (loop) steps.front().target = static_cast<int32_t>(steps.size());
    steps.push_back(ipu_.steps.back());
    ipu_.steps = std::move(steps);
    ipu_.loops += shift_;
    if (shift_ == 0) return;
    for (Kernel& kernel : code_.kernels) renumber(kernel.spec, shift_);
  }

 private:
  Step begin() const {
    Step step;
    step.kind = Step::Kind::kLoopBegin;
    step.count = to_;
    return step;
  }

  Step end_of(const program::Instruction& loop) const {
    Step step;
    step.kind = Step::Kind::kLoopEnd;
    step.buffers = ipu_.steps.back().buffers;
    step.target = 1;
    step.count = to_;
    step.per_micro_batch = loop.per_micro_batch;
    return step;
  }

  Step shifted(Step step) const {
    const bool loops = step.kind == Step::Kind::kLoopBegin || step.kind == Step::Kind::kLoopEnd;
    if (loops) step.index += shift_;
    if (loops || step.kind == Step::Kind::kBranch || step.kind == Step::Kind::kJump) {
      step.target += shift_;
    }
    return step;
  }

  Code& code_;
  IpuCode& ipu_;
  int64_t to_;
  bool had_loop_;
  int32_t shift_;
};

}  // namespace

std::shared_ptr<const BoundProgram> bind_program(program::Program program,
                                                 const ir::Registry& registry,
                                                 const EngineOptions& options) {
  auto bound = std::make_shared<BoundProgram>();
  bound->program = std::move(program);
  if (options.keep_recomputed) bound->host_program = keep_recomputed(bound->program, registry);
  bound->code =
      bind(bound->host_program ? *bound->host_program : bound->program, registry, options);
  return bound;
}

std::shared_ptr<const BoundProgram> with_device_iterations(const BoundProgram& bound,
                                                           program::Program program, int64_t from,
                                                           int64_t to) {
  if (bound.host_program) return nullptr;
  auto changed = std::make_shared<BoundProgram>();
  changed->program = std::move(program);
  changed->code = bound.code;
  changed->code.program = &changed->program;
  LoopChange(changed->code, from, to).run();
  return changed;
}

}  // namespace poptorch::emulator
