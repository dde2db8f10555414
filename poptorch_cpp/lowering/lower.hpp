// Placed IR → program: the schedule (the op list's order, in the loops of micro-batches and device
// iterations), one instruction list an IPU, transfers, and the memory plan.
#pragma once

#include "ir/module.hpp"
#include "program/program.hpp"

namespace poptorch::lowering {

// How the module is executed, it says itself. Main's graph becomes the work of one micro-batch, its
// inputs host streams into the device, its outputs streams out, in their order and before the
// streams that the module declares. An output that is a constant is kept once. With gradient
// accumulation, ops of context `accumulate_outer` run after the loop over micro-batches. Pipelined,
// the stages that ops name run skewed, micro-batch m of stage s in cycle m + s: see pipeline.hpp;
// sharded, IPUs meet after each micro-batch; phased, after each phase, between which state and
// values move to and from Streaming Memory: see phased.cpp. Under any strategy locations may put
// state there. Every op has an IPU (its own or its caller's; IPU 0 by default) and its operands are
// there: constants and unwritten hyper-parameters everywhere, other values through `ipu_copy`.
// Equal modules give equal programs. The result is verified.
program::Program lower(const ir::Module& module);

// Its two halves: all but the addresses in the arenas, then those, and the verification.
program::Program lower_unplanned(const ir::Module& module);
void plan(program::Program& program, const ir::Registry& registry);

}  // namespace poptorch::lowering
