// Host transfers that the user lets overlap with computation: the marks of
// poptorch.set_overlap_for_input and set_overlap_for_output.
#pragma once

#include "ir/module.hpp"

namespace poptorch::compile {

// Takes the marks (`identity` with `host`) out of @main and notes the loops that they name.
// UserError for a mark on what is no input or output of the model, on an input that other ops use,
// under a strategy that overlaps nothing, without IO tiles, and on outputs of which the mode keeps
// some only.
void take_host_overlaps(ir::Module& module);

}  // namespace poptorch::compile
