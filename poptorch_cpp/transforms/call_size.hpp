// How large a program becomes when every call is replaced by what it calls.
#pragma once

#include "ir/module.hpp"

namespace poptorch::transforms {

constexpr int64_t kMostOps = 1'000'000;

// UserError where @main, or without one any graph, would have more ops than that: graphs that call
// others twice, which do the same, double at every level. Bodies of loops count once. Costs a look
// at every op.
void check_call_size(const ir::Module& module);

}  // namespace poptorch::transforms
