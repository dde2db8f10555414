// The table of execution strategies: how a model on several IPUs runs on them. A new one is a row
// here and, where no schedule fits, a file beside sequential.cpp, pipelined.cpp and phased.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace poptorch::lowering {

class MainLowering;

// Says what users see as a step of the schedule: a stage of one micro-batch after the other, a
// stage of a pipeline, whose stages work side by side, or a phase.
enum class Steps : uint8_t { kStages, kPipeline, kPhases };

struct Strategy {
  std::string_view name;
  std::string_view doc;
  // These passes decide which ops run together: before ipu_copy ops are made, and with
  // them.
  std::vector<std::string_view> before_copies = {}, behind_copies = {};
  void (*schedule)(MainLowering&) = nullptr;
  bool overlaps_host_io = true;  // transfers with the host may overlap with computation
  Steps steps = Steps::kStages;
  bool state_is_off_chip = false;  // unless a location says otherwise
};

// Returns them in the order in which they are documented.
const std::vector<Strategy>& strategies();
// Throws UserError that names the closest strategy if `name` is unknown.
const Strategy& find_strategy(std::string_view name);
// Throws InternalError if the name is taken. Must be called before anything is compiled.
void add_strategy(Strategy strategy);

}  // namespace poptorch::lowering
