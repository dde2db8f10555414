// Random rounding of floats to half types, bit-identical with reference::rounded_at_random.
#pragma once

#include <cstdint>

#include "emulator/kernels/base/kernel.hpp"
#include "reference/philox.hpp"

namespace poptorch::emulator {

constexpr int64_t kDrawn = 32;  // numbers drawn at once, eight Philox blocks

// Converts `key` for the generator; the replica is left out where all replicas draw the same.
reference::Philox philox_of(const RandomKey& key, bool same_in_replicas);
// Draws number `first` (a multiple of 4) and the following ones.
void draw(const reference::Philox& philox, uint64_t first, uint32_t* numbers);
void round_at_random(ir::DType dtype, const float* x, const uint32_t* numbers, int64_t count,
                     uint16_t* y);

// A half result of `update`. The update writes it as floats to an extra buffer, in list order after
// the `buffers` of KernelArgs. From there it is rounded into buffer `to`.
struct RoundedResult {
  int to = 0;
  int operand = 0;  // the operand whose sequence of numbers it draws from
  ir::DType dtype = ir::DType::kF16;
};
// Makes an update of `elements` whose results are rounded at random, equally in all replicas.
std::unique_ptr<BoundKernel> make_update_at_random(std::unique_ptr<BoundKernel> update,
                                                   std::vector<RoundedResult> results, int buffers,
                                                   int64_t elements);

}  // namespace poptorch::emulator
