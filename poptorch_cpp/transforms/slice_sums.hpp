// Joins gradients of slices: each is an insertion into zeros, and adding n of them would take time
// that grows with the square of n.
#pragma once

#include <vector>

#include "ir/builder.hpp"

namespace poptorch::transforms {

// Replaces the insertions into zeros among `parts` whose slices do not overlap by one value, at the
// place of the first: a concat if they fill the tensor along one axis, otherwise a chain of
// insertions, which the emulator does in place. The sum of all parts remains the same, except that
// a zero may have another sign.
void join_slices(ir::Builder& builder, std::vector<ir::Value*>& parts);

}  // namespace poptorch::transforms
