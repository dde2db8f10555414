// The options of a compilation beyond the module, and the report of its progress.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "account/memory_limit.hpp"
#include "emulator/bound/share.hpp"
#include "ir/option_table.hpp"

namespace poptorch::compile {

// The options of a compilation beyond the module, which itself says how it is executed.
struct HostOptions {
  int64_t threads = 0;  // 0: POPTORCH_NUM_THREADS, else the number of cores
  account::MemoryLimit memory_limit = account::MemoryLimit::kUnset;
  bool round_ipu_count = false;    // reserve the next power of two of IPUs, the excess idle
  std::string cache_path = "";     // a folder that keeps executables; empty: none are kept
  bool offline = false;            // never run: no memory is allocated for it
  bool late_memory_check = false;  // the caller calls check_memory_limit() afterwards
  emulator::Share share = {};      // which replicas run in this process; default: all of them

  account::MemoryLimit early_memory_limit() const {
    return late_memory_check ? account::MemoryLimit::kOff : memory_limit;
  }
};

const std::vector<ir::OptionRow<HostOptions, account::MemoryLimit>>& host_option_rows();

// Called with (steps done, steps in all, phase name) from the compiling thread, often.
using Progress = std::function<void(int, int, const std::string&)>;

// A step of a compilation. Counts ops of an IR stage, or instructions of the program.
struct PassRecord {
  std::string name;
  double seconds = 0;
  int64_t ops_before = 0, ops_after = 0;
};

struct CompileRecord {
  double seconds = 0;   // of the whole, from the traced form
  bool cached = false;  // read from the cache: the passes have not run
  std::vector<PassRecord> passes;
};

}  // namespace poptorch::compile
