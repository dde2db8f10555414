// The reads and writes of an op beyond its operands' values. Passes ask here before they reorder,
// merge or delete ops.
#pragma once

#include "ir/graph.hpp"

namespace poptorch::ir {

// Returns the value whose memory `value` denotes. Result i of an op that writes in place is the
// memory of the operand writes[i]; results beyond the row's writes are new. A state value is its
// own root.
const Value* memory_root(const Value* value);
// Returns true for `variable` results and by-reference inputs: memory that outlives the graph's
// run.
bool is_state(const Value* value);
// Returns whether `op` depends on its operands' values alone: it reads and writes no state, draws
// no random numbers, moves no data to or from outside and calls no graph that does. Two equal pure
// ops may be merged.
bool is_pure(const Op& op);
// Returns whether `op` writes nothing and draws no random numbers. It may read state: its results
// are equal while nothing is written.
bool is_repeatable(const Op& op);
// Returns whether `op` may be deleted if no result is used.
bool is_removable(const Op& op);

}  // namespace poptorch::ir
