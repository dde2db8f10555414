// Describes poptorch::Options for the compiler.
#pragma once

#include <string>
#include <vector>

#include "ir/execution.hpp"
#include "ir/option_table.hpp"
#include "poptorch/options.hpp"
#include "session/session.hpp"

namespace poptorch {

struct Description {
  // Throws a UserError for options that an inference model cannot have.
  Description(const Options& options, bool training);

  // Returns `optimiser` with the options' settings. If it needs a running mean, means are running.
  ir::OptimiserSpec with_options(const ir::OptimiserSpec& optimiser) const;

  ir::Execution execution;  // without optimiser and replica groups
  compile::HostOptions host;
  ir::Attrs of_optimiser;
  ExecutionStrategy strategy;
  std::vector<std::string> anchors;  // short names, in the order of execution.anchors
  std::vector<std::string> updatable_buffers;
  bool broadcast_buffers;
};

}  // namespace poptorch
