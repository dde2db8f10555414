// Floats rounded to half types at random, with the bits of reference::rounded_at_random.
#pragma once

#include <cstdint>

#include "emulator/kernels/kernel.hpp"
#include "reference/philox.hpp"

namespace poptorch::emulator {

constexpr int64_t kDrawn = 32;  // numbers drawn at once, eight Philox blocks

// `key` as the generator takes it; without its replica where all replicas draw the same.
reference::Philox philox_of(const RandomKey& key, bool same_in_replicas);
// Numbers `first` (a multiple of 4) and the following.
void draw(const reference::Philox& philox, uint64_t first, uint32_t* numbers);
void round_at_random(ir::DType dtype, const float* x, const uint32_t* numbers, int64_t count,
                     uint16_t* y);

// A half result of `update`: written as floats to the extra buffer of its place in the list, behind
// the `buffers` of KernelArgs, and rounded from there into buffer `to`.
struct RoundedResult {
  int to = 0;
  int operand = 0;  // whose sequence of numbers it draws from
  ir::DType dtype = ir::DType::kF16;
};
// An update of `elements` whose results are rounded at random, in all replicas alike.
std::unique_ptr<BoundKernel> make_update_at_random(std::unique_ptr<BoundKernel> update,
                                                   std::vector<RoundedResult> results, int buffers,
                                                   int64_t elements);

}  // namespace poptorch::emulator
