// Host transfers that the user lets overlap with computation: the marks of
// poptorch.set_overlap_for_input and set_overlap_for_output.
#pragma once

#include <string>
#include <vector>

#include "ir/module.hpp"
#include "session/session.hpp"

namespace poptorch::session {

struct HostOverlaps {
  std::vector<std::string> inputs, outputs;  // of @main: the loop's name; empty: none
};

// Takes the marks (`identity` with `host`) out of @main. UserError for a mark on what is no input
// or output of the model, on an input that other ops use, under pipelining, without IO tiles, and
// on outputs of which the mode keeps some only.
HostOverlaps take_host_overlaps(ir::Module& module, const CompileOptions& options);

}  // namespace poptorch::session
