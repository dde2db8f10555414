// Finds values that are cheaper to compute again on another IPU than to send there.
#pragma once

#include <unordered_set>

#include "ir/module.hpp"

namespace poptorch::partition {

// Returns values of main's micro-batch work that follow from values of at most half their bytes by
// element-wise ops, casts and changes of shape. A pipeline then sends and stashes the smaller
// values: a mask travels as it was before it was broadcast or converted to a wider type.
std::unordered_set<const ir::Value*> enlarged_values(const ir::Graph& main);

}  // namespace poptorch::partition
