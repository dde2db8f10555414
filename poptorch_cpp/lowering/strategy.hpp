// The table of execution strategies: how a model on several IPUs runs on them. A new one is a row
// here and, where no schedule fits, a file beside sequential.cpp, pipelined.cpp and phased.cpp.
#pragma once

#include <string_view>
#include <vector>

namespace poptorch::lowering {

class MainLowering;

struct Strategy {
  std::string_view name;
  std::string_view doc;
  // The passes that say which ops run together: before ipu_copy ops are made, and with them.
  std::vector<std::string_view> before_copies = {}, behind_copies = {};
  void (*schedule)(MainLowering&) = nullptr;
  bool overlaps_host_io = true;    // transfers with the host may overlap with computation
  bool state_is_off_chip = false;  // where no location says another place
};

// In the order in which they are documented.
const std::vector<Strategy>& strategies();
// UserError naming the closest when there is no such strategy.
const Strategy& find_strategy(std::string_view name);
// InternalError when the name is taken. Call it before anything is compiled.
void add_strategy(Strategy strategy);

}  // namespace poptorch::lowering
