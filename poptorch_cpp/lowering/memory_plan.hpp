// Computes addresses in each IPU's arena from liveness.
#pragma once

#include "program/program.hpp"

namespace poptorch::lowering {

// Arena tensors start at multiples of this.
constexpr int64_t kArenaAlignment = 64;

// Gives every arena tensor and temporary data its offset, and every IPU its arena_bytes. Views, and
// element-wise results whose operand dies with them, take the operand's memory (`in_place`). Takes
// time near-linear in the number of instructions.
void plan_memory(program::Program& program, const ir::Registry& registry);

}  // namespace poptorch::lowering
