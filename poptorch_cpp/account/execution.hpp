// Builds the rows of events: when each IPU does what in one run.
#pragma once

#include "account/inspection.hpp"
#include "account/instructions.hpp"

namespace poptorch::account {

// The maximum number of events kept.
constexpr int64_t kMostEvents = 200'000;

// Fills lanes, events, complete, shown_cycles and total_cycles. Beyond `most` events, each loop
// ends with one event for its remaining rounds. If a program is still too long, its last events are
// missing.
void add_execution(const program::Program& program, const Instructions& instructions,
                   Inspection& made, int64_t most = kMostEvents);

}  // namespace poptorch::account
