// One op on literals: what constant folding and questions for constant values compute.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace poptorch::reference {

// The op's results; `operands` has nullptr for absent ones. The op has a reference kernel, writes
// nothing and draws nothing.
std::vector<ir::Literal> evaluate(const ir::Op& op,
                                  const std::vector<const ir::Literal*>& operands);

}  // namespace poptorch::reference
