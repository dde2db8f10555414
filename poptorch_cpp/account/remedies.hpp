// Proposes changes that would make an IPU's program smaller, with the saving of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.hpp"

namespace poptorch::account {

struct Remedy {
  int64_t saving = 0;  // bytes on that IPU
  std::string text;    // an imperative
};

// Returns remedies for an IPU that is `over` bytes too large: another cut (modules that its
// neighbour has room for), the largest kind of state off chip, a checkpoint to recompute from,
// smaller micro-batches. Only remedies that save something are listed, the largest saving first.
// Savings of the last two are estimates.
std::vector<Remedy> find_remedies(const program::Program& program, int ipu, int64_t over);

// Returns remedies for a replica that keeps too much in Streaming Memory: a kind of state on the
// chip instead, and the share of a further IPU.
std::vector<Remedy> find_streaming_remedies(const program::Program& program);

// Returns the stages, or phases, of one replica's IPU in ascending order; empty if its instructions
// name none.
std::vector<int> numbers_of(const program::Program& program, int ipu,
                            int program::Instruction::* number);
std::string megabytes(int64_t bytes);

}  // namespace poptorch::account
