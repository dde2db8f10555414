// Runs the steps that are kernels.
#include <utility>

#include "emulator/host/clock.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "emulator/run/runner.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {

// Inline, because a call costs time in loops of short kernels.
inline void Runner::run_phases(const Step& step, Machine& machine, const KernelArgs& args) {
  const BoundKernel& kernel = *step.kernel;
  const int phases = kernel.phases();
  int first = 0;
  if (step.prepared >= 0) {
    int64_t& seen = machine.prepared[step.prepared];
    first = std::exchange(seen, store_.version()) == store_.version() ? 1 : 0;
  }
  for (int phase = first; phase < phases; ++phase) {
    if (stop_.is_set()) return;
    const int tasks = kernel.tasks(phase);
    if (step.inline_only || tasks == 1) {
      for (int task = 0; task < tasks; ++task) kernel.run(args, phase, task);
      continue;
    }
    auto one = [&](int task, int helper) {
      if (!stop_.may_continue(helper)) return;
      KernelArgs own = args;
      own.scratch = scratch_.data() + helper * scratch_stride_;
      kernel.run(own, phase, task);
    };
    share_kernel(step, tasks, one);
  }
}

void Runner::run_kernel(const Step& step, Machine& machine, int worker) {
  KernelArgs args;
  args.buffers = machine.table.data() + step.buffers;
  args.scratch = scratch_.data() + worker * scratch_stride_;
  args.workspace = machine.table[step.workspace];
  args.random.seed = random_.seed;
  args.random.op_id = step.op_id;
  args.random.replica = static_cast<uint32_t>(machine.replica);
  args.random.micro_batch =
      random_.micro_batch + static_cast<uint64_t>(machine.micro_batch + step.micro_batch_offset);
  args.random.round = machine.round;
  try {
    if (step.reference < 0) return run_phases(step, machine, args);
    const double begin = now();
    step.kernel->run(args, 0, 0);
    reference_time_.add(step.reference, now() - begin);
  } catch (const support::UserError& error) {
    throw support::UserError(error.what() + program::place_of(program_, step.op_id), error.where());
  }
}

void Runner::share_kernel(const Step& step, int tasks, TaskRef task) {
  if (!observer_) return pool_.run(tasks, task);
  const std::string* name = step.region < 0 ? nullptr : &code_.regions[step.region].name;
  HelpedRegion region(*observer_, observer_context_.get(), name);
  pool_.run(tasks, task, {}, &region);
}

}  // namespace poptorch::emulator
