// What an op may read and write beyond its operands' values; passes ask here before they reorder,
// merge or delete.
#pragma once

#include "ir/graph.hpp"

namespace poptorch::ir {

// The value whose memory `value` denotes. Result i of an op that writes in place is the memory of
// the operand writes[i]; results beyond the row's writes are new. A state value is its own root.
const Value* memory_root(const Value* value);
// True for `variable` results and by-reference inputs: memory that outlives the graph's run.
bool is_state(const Value* value);
// Depends on its operands' values alone: reads and writes no state, draws no random numbers, moves
// no data to or from outside and calls no graph that does. Two equal pure ops may be merged.
bool is_pure(const Op& op);
// Writes nothing and draws no random numbers, but may read state: equal while nothing is written.
bool is_repeatable(const Op& op);
// May be deleted when no result is used.
bool is_removable(const Op& op);

}  // namespace poptorch::ir
