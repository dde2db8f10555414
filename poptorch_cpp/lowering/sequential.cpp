// The sequential schedule: the op list inside the loops over micro-batches and device iterations.
#include "lowering/schedules.hpp"

namespace poptorch::lowering {
namespace {

// Sharded IPUs wait for each other, so that one micro-batch is under way at a time.
void meet(Emitter& emitter) {
  const size_t ipus = emitter.program().ipus.size();
  for (size_t ipu = 0; ipu < ipus && ipus > 1; ++ipu) {
    emitter.emit(static_cast<int>(ipu), {.kind = program::Instruction::Kind::kSync});
  }
}

}  // namespace

void schedule_sequential(MainLowering& main) {
  Emitter& emitter = main.emitter();
  const int64_t rounds = main.options().device_iterations;
  const int64_t batches = main.options().gradient_accumulation;
  const bool accumulate = batches > 1;
  if (rounds > 1) emitter.open_block();
  if (accumulate) emitter.open_block();
  main.lower_section(false);
  if (main.options().strategy == transforms::Strategy::kSharded) meet(emitter);
  if (accumulate) {
    emitter.close_loop(batches, true);
    main.lower_section(true);
  }
  if (rounds > 1) emitter.close_loop(rounds, !accumulate);
}

}  // namespace poptorch::lowering
