// A replica's end of a host stream, and its position in the current run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "program/program.hpp"

namespace poptorch::emulator {

struct StreamEnd {
  const program::Stream* stream = nullptr;
  int64_t bytes = 0;      // of one transfer
  int64_t step = 0;       // bytes from a transfer to the replica's next one
  int64_t first = 0;      // bytes to the replica's first transfer
  int host_buffer = 0;    // among inputs or among outputs
  int64_t transfers = 0;  // done in this run
  std::byte* data = nullptr;
  std::vector<std::pair<double, double>> times = {};  // of the kept transfers: begin and end

  // Begins a run with the host's buffer.
  void begin_run(std::byte* buffer) {
    transfers = 0;
    data = buffer;
  }
  // Copies the next transfer from the host's buffer.
  void take(std::byte* to);
  // Copies the next transfer to the host's buffer, if the stream keeps it.
  void put(const std::byte* from);
};

}  // namespace poptorch::emulator
