// Phases: what runs between two exchanges with Streaming Memory, and in which order.
#pragma once

#include <cstdint>

#include "ir/module.hpp"

namespace poptorch::ir {
enum class Liveness : uint8_t;
}

namespace poptorch::partition {

// The distance between the numbers of neighbouring phases: transfers fall into those between.
int phase_step(ir::Liveness liveness);

// Which IPUs a phase may run on: any, or even phases on even IPUs and odd ones on odd IPUs.
enum class Parity : uint8_t { kAny, kAsIpu };

// Numbers the phases of main. Needs placed ops and copies. Forward phase f of n has number f·step;
// its backward phase is its mirror image, (2(n-1) - f)·step, or (2n - f)·step with separate
// backward phases: both keep the parity of f. An op of the backward pass runs no earlier than what
// it depends on; updates of weights behind all micro-batches have no phase. Notes the last forward
// phase. UserError for data that flows to an earlier phase and for a phase on an IPU of the wrong
// parity.
void assign_phases(ir::Module& module, Parity parity);

}  // namespace poptorch::partition
