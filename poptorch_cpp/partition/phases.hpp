// Phases: what runs between two exchanges with Streaming Memory, and in which order.
#pragma once

#include "ir/module.hpp"
#include "transforms/passes.hpp"

namespace poptorch::partition {

// The distance between the numbers of neighbouring phases: transfers fall into those between.
int phase_step(transforms::Liveness liveness);

// Numbers the phases of main under a phased strategy; leaves others alone. Needs placed ops and
// copies. Forward phase f of n has number f·step; its backward phase is its mirror image,
// (2(n-1) - f)·step, or (2n - f)·step with separate backward phases: both keep the parity of f. An
// op of the backward pass runs no earlier than what it depends on; updates of weights behind all
// micro-batches have no phase. Notes the last forward phase in the context. UserError for data that
// flows to an earlier phase and, parallel, for an even phase on an odd IPU or an odd one on an even
// IPU.
void assign_phases(ir::Module& module, transforms::PassContext& context);

}  // namespace poptorch::partition
