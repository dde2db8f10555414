// One schedule an execution strategy: when, and around what transfers, the ops of main run.
#pragma once

#include <functional>

#include "lowering/main_lowering.hpp"

namespace poptorch::lowering {

// One micro-batch after the other, in the order of the ops.
void schedule_sequential(MainLowering& main);

// Likewise; IPUs wait for each other after each, so that one is under way at a time.
void schedule_sharded(MainLowering& main);

// Stages work on different micro-batches at one time: pipeline.hpp. Of one stage: sequential.
void schedule_pipelined(MainLowering& main);

// One micro-batch after the other, phase by phase; all IPUs meet after each phase.
void schedule_phased(MainLowering& main);

// The loops over micro-batches and device iterations around `micro_batch`, with the weight update.
void loop_micro_batches(MainLowering& main, const std::function<void()>& micro_batch);

}  // namespace poptorch::lowering
