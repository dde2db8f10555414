// The contents and costs of a compiled model as columns; docs/profiling.md describes each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "account/remedies.hpp"
#include "account/table.hpp"
#include "program/program.hpp"

namespace poptorch::account {

// The bytes that an IPU of a replica needs and has.
struct IpuMemory {
  int64_t needed = 0, capacity = 0, arena = 0;
  int64_t first = 0, last = 0;   // rows of its instructions; last < first if it has none
  std::vector<Remedy> remedies;  // if it does not fit
};

struct DeviceFacts {
  std::string name;
  double clock_hz = 0;
  int64_t tiles = 0, bytes_per_ipu = 0;
};

struct Inspection {
  DeviceFacts device;
  int64_t replicas = 1, micro_batches_per_run = 1;
  std::vector<std::string> strings;
  Table instructions{"ipu"};
  Table always{"ipu", "name", "module", "kind", "bytes"};
  Table allocations{"ipu", "name", "module", "kind", "offset", "bytes", "first", "last"};
  Table lanes{"ipu", "tiles"};
  Table events{"lane", "start", "cycles", "instruction", "micro_batch", "rounds"};
  Table modules{
      "path",         "parent", "parameter_bytes", "parameters", "activation_bytes", "cycles",
      "instructions", "ipu"};
  Table crossings{"from_ipu", "to_ipu", "name",  "module",
                  "bytes",    "cycles", "count", "instruction"};
  std::vector<IpuMemory> ipus;
  bool complete = true;  // whether the events are all that happen
  int64_t shown_cycles = 0, total_cycles = 0;
};

// Omits the texts of IR stages. Equal programs give equal columns.
Inspection inspect(const program::Program& program);

}  // namespace poptorch::account
