// The table of HostOptions.
#include "session/session.hpp"

namespace poptorch::session {

const std::vector<ir::OptionRow<HostOptions>>& host_option_rows() {
  static const std::vector<ir::OptionRow<HostOptions>> rows = {
      {"threads",
       &HostOptions::threads,
       "That run the emulator; 0: POPTORCH_NUM_THREADS, else the number of cores.",
       {0, 1 << 16}},
      {"memory_limit", &HostOptions::memory_limit,
       "What happens when an IPU's memory does not suffice: warn, error or off."},
      {"round_ipu_count", &HostOptions::round_ipu_count,
       "The next power of two of IPUs is reserved."},
  };
  return rows;
}

}  // namespace poptorch::session
