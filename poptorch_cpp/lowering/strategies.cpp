#include <string>

#include "lowering/schedules.hpp"
#include "lowering/strategy.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::lowering {
namespace {

using support::str;

std::vector<Strategy>& rows() {
  static std::vector<Strategy> all = {
      {.name = "pipelined",
       .doc = "Stages work on different micro-batches at one time.",
       .before_copies = {"assign_stages", "recompute_forward", "defer_gradients"},
       .schedule = schedule_pipelined,
       .overlaps_host_io = false,
       .steps = Steps::kPipeline},
      {.name = "sharded",
       .doc = "One micro-batch at a time, one IPU after the other.",
       .before_copies = {"recompute_forward"},
       .schedule = schedule_sharded},
      {.name = "serial_phased",
       .doc = "One phase after the other; what a phase does not need is off the chip.",
       .behind_copies = {"assign_phases"},
       .schedule = schedule_phased,
       .steps = Steps::kPhases,
       .state_is_off_chip = true},
      {.name = "parallel_phased",
       .doc = "One phase after the other; even phases run on even IPUs, odd phases on odd IPUs.",
       .behind_copies = {"assign_parallel_phases"},
       .schedule = schedule_phased,
       .steps = Steps::kPhases,
       .state_is_off_chip = true},
  };
  return all;
}

}  // namespace

const std::vector<Strategy>& strategies() { return rows(); }

const Strategy& find_strategy(std::string_view name) {
  std::vector<std::string> known;
  for (const Strategy& strategy : rows()) {
    if (strategy.name == name) return strategy;
    known.emplace_back(strategy.name);
  }
  const std::string near = support::closest_name(name, known);
  throw support::UserError(str("[execution] there is no strategy ", support::quoted(name), ".",
                               near.empty() ? str(" There are ", support::join(known, ", "), ".")
                                            : str(" Did you mean '", near, "'?")));
}

void add_strategy(Strategy strategy) {
  for (const Strategy& row : rows()) {
    if (row.name == strategy.name) {
      throw support::InternalError(str("[execution] two strategies are called ", row.name, "."));
    }
  }
  rows().push_back(std::move(strategy));
}

}  // namespace poptorch::lowering
