// Rows of what the IPUs do when, in one run.
#pragma once

#include "account/inspection.hpp"
#include "account/instructions.hpp"

namespace poptorch::account {

// Events that are kept at most.
constexpr int64_t kMostEvents = 200'000;

// Fills lanes, events, complete, shown_cycles and total_cycles. Beyond `most` events, loops end
// with one event for the rounds that are left; in programs that are too long even so, what comes
// last is missing.
void add_execution(const program::Program& program, const Instructions& instructions,
                   Inspection& made, int64_t most = kMostEvents);

}  // namespace poptorch::account
