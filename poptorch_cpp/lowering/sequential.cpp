// Puts the op list inside the loops over micro-batches and device iterations.
#include "ir/execution.hpp"
#include "lowering/schedules.hpp"

namespace poptorch::lowering {

void loop_micro_batches(MainLowering& main, const std::function<void()>& micro_batch) {
  Emitter& emitter = main.emitter();
  const int64_t rounds = main.execution().device_iterations;
  const int64_t batches = main.execution().gradient_accumulation;
  const bool accumulate = batches > 1;
  if (rounds > 1) emitter.open_block();
  if (accumulate) emitter.open_block();
  micro_batch();
  if (accumulate) {
    emitter.close_loop(batches, true);
    main.lower_section(true);
  }
  if (rounds > 1) emitter.close_loop(rounds, !accumulate);
}

void schedule_sequential(MainLowering& main) {
  loop_micro_batches(main, [&main] { main.lower_section(false); });
}

void schedule_sharded(MainLowering& main) {
  loop_micro_batches(main, [&main] {
    main.lower_section(false);
    main.emitter().meet();
  });
}

}  // namespace poptorch::lowering
