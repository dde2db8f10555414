// The verifier of the IR: run after every pass.
#pragma once

#include "ir/module.hpp"

namespace poptorch::ir {

// InternalError naming op and rule when an invariant of graph.hpp, a row's operand or attribute
// constraint, an inferred type, a called graph's signature or a declared name does not hold.
void verify(const Module& module);

}  // namespace poptorch::ir
