// Implements lower.hpp: the strategy's schedule, by a table.
#include "lowering/lower.hpp"

#include "lowering/schedules.hpp"

namespace poptorch::lowering {
namespace {

using Schedule = void (*)(MainLowering&);

// By Strategy.
constexpr Schedule kSchedules[] = {schedule_pipelined, schedule_sequential, schedule_phased,
                                   schedule_phased};

}  // namespace

program::Program lower(const ir::Module& module, const LowerOptions& options) {
  MainLowering main(module, options);
  kSchedules[static_cast<size_t>(options.strategy)](main);
  return main.finish();
}

}  // namespace poptorch::lowering
