// What each IPU does, stage by stage and micro-batch by micro-batch, as the program has it.
#pragma once

#include "account/figures.hpp"
#include "program/program.hpp"

namespace poptorch::account {

// The work on micro-batches before `micro_batches` of the first run, IPU by IPU, each in its order.
// Weight updates and transfers are no work of a stage. Of transfers are told those that a schedule
// places: between phases, and with the host where they overlap with computation.
Timeline timeline(const program::Program& program, int64_t micro_batches);

}  // namespace poptorch::account
