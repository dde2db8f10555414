// Chooses the IPU that runs each op, and inserts the copies between IPUs that follow from it.
#pragma once

#include <string>
#include <unordered_set>

#include "ir/graph.hpp"

namespace poptorch::partition {

// Gives every op of main an IPU. Places that ops name are kept. Of the other ops, one that uses
// state goes where that state is used, and any other where its operands come from. An op that
// depends on constants alone goes to its first user. If no op names a place, everything runs on
// IPU 0. Raises UserError for a weight or buffer that is used on several IPUs.
void place_ops(ir::Module& module);

// Copies each value of main to the other IPUs that use it, once, before its first use there. A
// value that depends on constants alone is computed again there instead, in the user's stage, as
// are, in pipelines, values that follow from much smaller ones (smallest_form.hpp). A
// copy belongs to the stage and phase of what it copies. The home of an input is the IPU of its
// first use (by stage, then in list order). Constants and hyper-parameters are everywhere; other
// scalar state that several IPUs read is copied again after each write.
void insert_copies(ir::Module& module);

// Raises InternalError when an op of main lacks an IPU, or uses another IPU's value without a copy.
void verify_placed(const ir::Module& module);

// Whether the op has a place: constants and reads of state do not.
bool has_place(const ir::Op& op);
// Whether the op of main runs once per weight update, after the loop over micro-batches.
bool is_outer(const ir::Op& op);
// Whether the op has a place inside that loop.
bool is_inner(const ir::Op& op);
// Returns the `variable` op whose memory `value` denotes; nullptr for any other value.
const ir::Op* state_read(const ir::Value* value);
// Returns the values that `graph` computes from constants alone.
std::unordered_set<const ir::Value*> constant_values(const ir::Graph& graph);
// Returns a text such as "op 'linear' of block 'front' (model.py:42)".
std::string describe(const ir::Op& op);

}  // namespace poptorch::partition
