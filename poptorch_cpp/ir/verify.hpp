// The verifier of the IR: run after every pass, and on what comes from outside.
#pragma once

#include <cstdint>

#include "ir/module.hpp"

namespace poptorch::ir {

// What a module may be at most. Every op that names a graph holds the graph's ops, as often as it
// is named: what inlining and lowering would make of it.
constexpr int64_t kMaxExpandedOps = int64_t{1} << 20;
constexpr int kMaxNesting = 256;  // of graphs in graphs

// InternalError naming op and rule when an invariant of graph.hpp, a row's operand or attribute
// constraint, an inferred type, a called graph's signature or a declaration does not hold;
// UserError when the module is merely too large, or its execution cannot be. Looks at nothing that
// did not change since it was accepted: see Module::is_verified and Op::is_checked.
void verify(const Module& module);

// What verify() says of one op whose operands are defined before it.
void verify_op(const Op& op);
// UserError when the placement names an IPU, stage or phase that cannot be.
void verify_placement(const Op& op);

}  // namespace poptorch::ir
