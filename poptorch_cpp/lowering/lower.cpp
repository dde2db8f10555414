// Implements lower.hpp.
#include "lowering/lower.hpp"

#include "lowering/main_lowering.hpp"
#include "lowering/strategy.hpp"

namespace poptorch::lowering {

program::Program lower(const ir::Module& module) {
  const Strategy& strategy = find_strategy(module.execution().strategy);
  MainLowering main(module);
  strategy.schedule(main);
  return main.finish();
}

}  // namespace poptorch::lowering
