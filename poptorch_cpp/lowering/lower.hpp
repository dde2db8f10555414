// Lowers placed IR to a program: the schedule (the op list's order, in the loops of micro-batches
// and device iterations), one instruction list per IPU, transfers, and the memory plan.
#pragma once

#include "ir/module.hpp"
#include "program/program.hpp"

namespace poptorch::lowering {

// Lowers a module as its execution() says. Main's graph becomes the work of one micro-batch. Its
// inputs become host streams into the device, its outputs streams out, in their order and before
// the streams that the module declares. An output that is a constant is kept once. With gradient
// accumulation, ops of context `accumulate_outer` run after the loop over micro-batches.
//
// The strategy orders the work. In a pipeline the stages that ops name run skewed, micro-batch m of
// stage s in cycle m + s: see pipeline.hpp. Sharded, IPUs synchronise after each micro-batch.
// Phased, they synchronise after each phase; between phases, state and values move to and from
// Streaming Memory: see phased.cpp. Under any strategy, locations may put state there.
//
// Every op has an IPU (its own or its caller's; IPU 0 by default), and its operands are on it.
// Constants and unwritten hyper-parameters are on every IPU; other values move through `ipu_copy`.
// Equal modules give equal programs. The result is verified.
program::Program lower(const ir::Module& module);

// These are the halves of lower(): all but the addresses in the arenas, then those and
// verification.
program::Program lower_unplanned(const ir::Module& module);
void plan(program::Program& program, const ir::Registry& registry);

}  // namespace poptorch::lowering
