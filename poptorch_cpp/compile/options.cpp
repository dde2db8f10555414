// The table of HostOptions.
#include "compile/options.hpp"

namespace poptorch::compile {

const std::vector<ir::OptionRow<HostOptions, account::MemoryLimit>>& host_option_rows() {
  static const std::vector<ir::OptionRow<HostOptions, account::MemoryLimit>> rows = {
      {"threads",
       &HostOptions::threads,
       "That run the emulator; 0: POPTORCH_NUM_THREADS, else the number of cores.",
       {0, 1 << 16}},
      {"memory_limit",
       &HostOptions::memory_limit,
       "What happens when a program does not fit into an IPU: 'warn', 'error' or 'off'. Empty: "
       "POPTORCH_MEMORY_LIMIT, else 'warn'.",
       {.words = account::memory_limit_words()},
       "Emulator.memoryLimit(mode)"},
      {"round_ipu_count",
       &HostOptions::round_ipu_count,
       "Reserve the next power of two of IPUs, where another number is an error.",
       {},
       "autoRoundNumIPUs(auto_round_num_ipus=true)"},
      {"cache_path", &HostOptions::cache_path,
       "Folder that keeps executables for the next compilation of the same model: see cache.hpp. "
       "Empty: none are kept."},
      {"offline", &HostOptions::offline,
       "The program is never run: no memory is taken for its tensors, but for state that is "
       "written."},
      {"late_memory_check", &HostOptions::late_memory_check,
       "The limit of memory is checked by the executable's check_memory(), once there is a report "
       "of what does not fit."},
  };
  return rows;
}

}  // namespace poptorch::compile
