// The verifier of the IR: it runs after every pass, and on modules from outside.
#pragma once

#include <cstdint>

#include "ir/module.hpp"

namespace poptorch::ir {

// The largest module. Every op that names a graph counts the graph's ops, as often as it is named,
// because inlining and lowering would expand it.
constexpr int64_t kMaxExpandedOps = int64_t{1} << 20;
constexpr int kMaxNesting = 256;  // of graphs in graphs

// InternalError naming op and rule if one of these does not hold: an invariant of graph.hpp, a
// row's operand or attribute constraint, an inferred type, a called graph's signature or a
// declaration. UserError if the module is merely too large, or its execution is impossible. Skips
// everything that has not changed since it was accepted: see Module::is_verified and
// Op::is_checked.
void verify(const Module& module);

// Makes the checks of verify() for one op whose operands are defined before it.
void verify_op(const Op& op);
// UserError if the placement names an impossible IPU, stage or phase.
void verify_placement(const Op& op);

}  // namespace poptorch::ir
