// The work of each IPU by stage and micro-batch, as the program schedules it.
#pragma once

#include "account/figures.hpp"
#include "program/program.hpp"

namespace poptorch::account {

// Returns the work on micro-batches before `micro_batches` of the first run, IPU by IPU, each in
// its order. Weight updates and transfers do not count as work of a stage. Transfers are included
// if a schedule places them: between phases, and with the host if they overlap with computation.
Timeline timeline(const program::Program& program, int64_t micro_batches);

}  // namespace poptorch::account
