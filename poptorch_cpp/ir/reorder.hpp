// Moves ops of a graph past others if that changes nothing.
#pragma once

#include "ir/graph.hpp"

namespace poptorch::ir {

// Makes `value` available before `op`, of the same graph: moves the ops that compute it up, or the
// op and its dependents down. Leaves move anywhere, pure ops past all others, ops that read state
// past those without effects. Returns false, and moves nothing, if neither is possible. With `dry`,
// moves nothing in either case.
bool bring_before(Value& value, Op& op, bool dry = false);

}  // namespace poptorch::ir
