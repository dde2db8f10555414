#include "session/profile.hpp"

#include <utility>

#include "compile/pipeline.hpp"
#include "ir/execution.hpp"

namespace poptorch::session {

account::Profile profile(std::unique_ptr<ir::Module> module) {
  // Accumulates gradients, as a pipeline of the parts will.
  ir::Execution& execution = module->execution();
  execution.strategy = "sharded";
  execution.device_iterations = execution.replication_factor = 1;
  execution.gradient_accumulation = execution.training ? 2 : 1;
  const auto compiled = compile::compile_to_program(
      std::move(module), {.memory_limit = account::MemoryLimit::kOff}, {});
  return account::profile_of(compiled.program);
}

}  // namespace poptorch::session
