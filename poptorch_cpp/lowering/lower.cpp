#include "lowering/lower.hpp"

#include "ir/execution.hpp"
#include "lowering/main_lowering.hpp"
#include "lowering/memory_plan.hpp"
#include "lowering/strategy.hpp"
#include "program/multi_conv.hpp"

namespace poptorch::lowering {

program::Program lower_unplanned(const ir::Module& module) {
  const Strategy& strategy = find_strategy(module.execution().strategy);
  MainLowering main(module);
  strategy.schedule(main);
  program::Program program = main.finish();
  program::plan_multi_convs(program);
  return program;
}

void plan(program::Program& program, const ir::Registry& registry) {
  plan_memory(program, registry);
  program::verify(program);
}

program::Program lower(const ir::Module& module) {
  program::Program program = lower_unplanned(module);
  plan(program, module.registry());
  return program;
}

}  // namespace poptorch::lowering
