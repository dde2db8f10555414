// What an op may read and write beyond its operands' values; passes ask here before they reorder,
// merge or delete.
#pragma once

#include "ir/graph.hpp"

namespace poptorch::ir {

// The value whose memory `value` denotes: follows results that alias an operand in place. A state
// value is its own root.
const Value* memory_root(const Value* value);
// True for `variable` results and by-reference inputs: memory that outlives the graph's run.
bool is_state(const Value* value);
// Reads or writes state, draws random numbers, moves data to or from outside, or calls a graph
// that does. Such ops keep their order among themselves where they touch the same memory.
bool is_pure(const Op& op);
// May be deleted when no result is used.
bool is_removable(const Op& op);

}  // namespace poptorch::ir
