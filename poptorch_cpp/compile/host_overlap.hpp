// Host transfers that the user lets overlap with computation, marked by
// poptorch.set_overlap_for_input and set_overlap_for_output.
#pragma once

#include "ir/module.hpp"

namespace poptorch::compile {

// Removes the marks (`identity` with `host`) from @main and records the loops that they name.
// UserError for a mark on a value that is neither an input nor an output of the model, or on an
// input that other ops use. UserError also under a strategy that overlaps nothing, without IO
// tiles, and on outputs if the mode returns only some of them.
void take_host_overlaps(ir::Module& module);

}  // namespace poptorch::compile
