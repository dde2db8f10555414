// One schedule per execution strategy: it decides when, and around what transfers, main's ops run.
#pragma once

#include <functional>

#include "lowering/main_lowering.hpp"

namespace poptorch::lowering {

// Runs one micro-batch after the other, in the order of the ops.
void schedule_sequential(MainLowering& main);

// Does the same, but IPUs wait for each other after each, so that one is under way at a time.
void schedule_sharded(MainLowering& main);

// Runs stages on different micro-batches at one time (pipeline.hpp). One stage runs sequentially.
void schedule_pipelined(MainLowering& main);

// Runs one micro-batch after the other, phase by phase; all IPUs synchronise after each phase.
void schedule_phased(MainLowering& main);

// Emits the loops over micro-batches and device iterations around `micro_batch`, with the weight
// update.
void loop_micro_batches(MainLowering& main, const std::function<void()>& micro_batch);

}  // namespace poptorch::lowering
