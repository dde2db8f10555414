// Placement: which IPU runs each op, and the copies between IPUs that follow from it.
#pragma once

#include <string>
#include <unordered_set>

#include "ir/module.hpp"

namespace poptorch::partition {

// Gives every op of main an IPU. Places that ops name are kept. Of the others, an op that uses
// state goes where that state is used, any other where its operands come from, and what depends on
// constants alone to its first user; where nothing is named, everything runs on IPU 0. UserError
// for a weight or buffer that is used on several IPUs.
void place_ops(ir::Module& module);

// In main, copies a value that is used on another IPU than its own there, once, before its first
// use there; what depends on constants alone is computed there again instead, in the user's stage.
// A copy belongs to the stage and phase of what it copies. The home of an input is the
// IPU of its first use (by stage, then in list order). Constants and hyper-parameters are
// everywhere; other scalar state that several IPUs read is copied anew after each write.
void insert_copies(ir::Module& module);

// InternalError when an op of main has no IPU, or uses a value of another IPU without a copy.
void verify_placed(const ir::Module& module);

// Constants and reads of state have no place of their own.
bool has_place(const ir::Op& op);
// Whether the op of main runs once a weight update, behind the loop over micro-batches.
bool is_outer(const ir::Op& op);
// Whether it has a place inside of that loop.
bool is_inner(const ir::Op& op);
// The `variable` op that `value` denotes the memory of; nullptr for any other value.
const ir::Op* state_read(const ir::Value* value);
// What `graph` computes from constants alone.
std::unordered_set<const ir::Value*> constant_values(const ir::Graph& graph);
// "op 'linear' of block 'front' (model.py:42)".
std::string describe(const ir::Op& op);

}  // namespace poptorch::partition
