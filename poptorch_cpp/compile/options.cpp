// The table of HostOptions.
#include "compile/options.hpp"

namespace poptorch::compile {

const std::vector<ir::OptionRow<HostOptions, account::MemoryLimit>>& host_option_rows() {
  static const std::vector<ir::OptionRow<HostOptions, account::MemoryLimit>> rows = {
      {"threads",
       &HostOptions::threads,
       "Threads that run the emulator; 0: POPTORCH_NUM_THREADS, or else the number of cores.",
       {0, 1 << 16}},
      {"memory_limit",
       &HostOptions::memory_limit,
       "What happens when a program does not fit into an IPU: 'warn', 'error' or 'off'. Empty: "
       "POPTORCH_MEMORY_LIMIT, else 'warn'.",
       {.words = account::memory_limit_words()},
       "Emulator.memoryLimit(mode)"},
      {"round_ipu_count",
       &HostOptions::round_ipu_count,
       "Round the number of reserved IPUs up to a power of two; otherwise another number is an "
       "error.",
       {},
       "autoRoundNumIPUs(auto_round_num_ipus=true)"},
      {"cache_path", &HostOptions::cache_path,
       "Folder in which compiled executables are cached: see cache.hpp. Empty: no cache."},
      {"offline", &HostOptions::offline,
       "The program is never run: memory is allocated only for state that is written."},
      {"late_memory_check", &HostOptions::late_memory_check,
       "The executable's check_memory() checks the memory limit later, after a report has been "
       "written."},
  };
  return rows;
}

}  // namespace poptorch::compile
