// Placement: which IPU runs each op, and the copies that follow from it.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

// Makes the placed form. Ops that name no IPU run on IPU 0; explicit places are kept. In main, a
// value used on another IPU than its own is copied there once, before its first use there; the home
// of an input is the IPU of its first use. State and constants are not copied: lowering checks
// them.
void place_ops(ir::Module& module);

// InternalError when an op of main has no IPU, or uses a value of another IPU without a copy.
void verify_placed(const ir::Module& module);

}  // namespace poptorch::partition
