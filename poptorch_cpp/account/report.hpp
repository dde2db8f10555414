// The cost report of a program: memory, work and waiting of its IPUs in one run.
#pragma once

#include "account/figures.hpp"
#include "program/program.hpp"

namespace poptorch::account {

// The bytes that one replica keeps in Streaming Memory, and its IPUs' share of that memory.
struct StreamingReport {
  int64_t weight_bytes = 0;  // buffers included
  int64_t optimiser_bytes = 0, accumulator_bytes = 0, buffer_bytes = 0;
  int64_t capacity_bytes = 0;
  int64_t needed() const {
    return weight_bytes + optimiser_bytes + accumulator_bytes + buffer_bytes;
  }
};

// Reports on one of `instances` instances.
Report make_report(const program::Program& program, int instances = 1);
StreamingReport streaming_of(const program::Program& program);
// Returns the bytes that a send, or a transfer with the host or Streaming Memory, moves in one
// round.
int64_t moved_bytes(const program::Program& program, const program::Instruction& instruction);
// Returns the bytes of a state that one replica keeps: all of it, or a shard.
int64_t kept_bytes(const program::State& state);
MemoryReport memory_of(const program::Program& program, int ipu);

}  // namespace poptorch::account
