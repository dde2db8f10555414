// Names of parts of a program, for those that do without its contents.
#pragma once

#include <cstdint>

namespace poptorch::program {

struct Program;
struct Instruction;

using TensorId = int32_t;
constexpr TensorId kNoTensor = -1;

// The memory that an address is relative to.
enum class Base : uint8_t {
  kArena,     // the IPU's arena; `offset` from the memory plan
  kState,     // state slot `index` of Program::states
  kConstant,  // literal `index` of Program::constants
  kStream,    // staging buffer of stream `index`: the current transfer, on the host's side
  kStash,     // stash `index`: the slot (micro-batch modulo depth) of Program::stashes
};

}  // namespace poptorch::program
