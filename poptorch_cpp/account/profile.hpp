// The cost of each part of a model, in execution order: the basis of the cuts of poptorch.plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace poptorch::ir {
struct StateSlot;
}
namespace poptorch::program {
struct Program;
}

namespace poptorch::account {

// Consecutive forward ops of one module, with their costs.
struct Segment {
  std::string module = {};                          // its path; empty outside modules
  int64_t forward_cycles = 0, backward_cycles = 0;  // of one micro-batch
  std::vector<std::string> parameters = {};         // state that it reads, in order of first use
  int64_t activation_bytes = 0;                     // its forward results, added up
  // Values that later segments use after this one ends, and the cost of sending them to another
  // IPU.
  int64_t boundary_bytes = 0, boundary_cycles = 0;
};

struct Profile {
  std::vector<Segment> segments;
  // Bytes of each parameter or buffer with its optimiser state and accumulator.
  std::vector<std::pair<std::string, int64_t>> states;
  int64_t capacity_bytes = 0;  // of one IPU
};

// Returns the profile of a program on one IPU whose ops still name their modules.
Profile profile_of(const program::Program& program);

// Returns the parameter that a slot belongs to: of accumulator.<parameter> and
// optimiser.<what>.<parameter>, or the slot itself.
std::string_view parameter_of(const ir::StateSlot& slot);

// Returns the bytes of each parameter or buffer by name, with its optimiser state.
std::unordered_map<std::string, int64_t> bytes_with_optimiser(const program::Program& program);

}  // namespace poptorch::account
