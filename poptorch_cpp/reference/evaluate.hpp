// Evaluation of one op on literals, for constant folding and for queries of constant values.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace poptorch::reference {

// Returns the op's results; `operands` has nullptr for absent ones. The op has a reference kernel,
// and neither writes nor draws random numbers.
std::vector<ir::Literal> evaluate(const ir::Op& op,
                                  const std::vector<const ir::Literal*>& operands);

}  // namespace poptorch::reference
