// Orders the phases: a phase is what runs between two exchanges with Streaming Memory.
#pragma once

#include <cstdint>

#include "ir/module.hpp"

namespace poptorch::ir {
enum class Liveness : uint8_t;
}

namespace poptorch::partition {

// Returns the distance between the numbers of neighbouring phases. Transfers get those between.
int phase_step(ir::Liveness liveness);

// Says where a phase may run: on any IPU, or even phases on even IPUs and odd ones on odd IPUs.
enum class Parity : uint8_t { kAny, kAsIpu };

// Numbers the phases of main. Needs placed ops and copies. Forward phase f of n has number f·step.
// Its backward phase mirrors it: (2(n-1) - f)·step, or (2n - f)·step with separate backward phases.
// Both keep the parity of f. An op of the backward pass runs no earlier than what it depends on;
// updates of weights after all micro-batches are in no phase. Notes the last forward phase. Raises
// UserError for data that flows to an earlier phase and for a phase on an IPU of the wrong parity.
void assign_phases(ir::Module& module, Parity parity);

}  // namespace poptorch::partition
