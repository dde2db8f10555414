// Moves ops of a graph past others where that changes nothing.
#pragma once

#include "ir/graph.hpp"

namespace poptorch::ir {

// Makes `value` one that stands before `op`, of the same graph: moves the ops that make it up, or
// the op and what needs it down. Leaves go anywhere; pure ops past all others; ops that read state
// past those without effects. False, and nothing is moved, where neither can be.
// dry: moves nothing either way.
bool bring_before(Value& value, Op& op, bool dry = false);

}  // namespace poptorch::ir
