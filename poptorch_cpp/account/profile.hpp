// What the parts of a model cost, in the order in which they run: what poptorch.plan cuts by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "program/program.hpp"

namespace poptorch::account {

// Forward ops in a row that belong to one module, with what follows from them.
struct Segment {
  std::string module = {};                          // its path; empty outside modules
  int64_t forward_cycles = 0, backward_cycles = 0;  // of one micro-batch
  std::vector<std::string> parameters = {};         // state that it reads, in order of first use
  int64_t activation_bytes = 0;                     // its forward results, added up
  // Values that later segments use when this one is done, and sending them to another IPU.
  int64_t boundary_bytes = 0, boundary_cycles = 0;
};

struct Profile {
  std::vector<Segment> segments;
  // Bytes of each parameter or buffer with its optimiser state and accumulator.
  std::vector<std::pair<std::string, int64_t>> states;
  int64_t capacity_bytes = 0;  // of one IPU
};

// Of a program on one IPU whose ops keep the modules that they are of.
Profile profile_of(const program::Program& program);

// The parameter that a slot is of: of accumulator.<parameter> and optimiser.<what>.<parameter>, or
// itself.
std::string_view parameter_of(const ir::StateSlot& slot);

// Bytes of each parameter or buffer, with what the optimiser keeps of it, by name.
std::unordered_map<std::string, int64_t> bytes_with_optimiser(const program::Program& program);

}  // namespace poptorch::account
