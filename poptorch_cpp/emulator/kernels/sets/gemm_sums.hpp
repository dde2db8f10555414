// Blocks of sums of products of matrices, and how they end as halves.
#pragma once

#include "emulator/kernels/sets/gemm_matrices.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// A block of at most kMatrixRows rows and columns, whose sums lie kMatrixRows apart. No sum is a
// denormal.
struct SumBlock {
  int64_t top, rows, j, columns;
  float* sums;
};

// Two blocks: one is multiplied while the other ends, for the multiplication takes longer to finish
// than to start.
class SumsInTurn {
 public:
  float* next() { return held_[turn_ ^= 1]; }
  void hold(const SumBlock& block) { waiting_ = block; }
  // Calls end(block) for the block that is held.
  template <typename End>
  void end_held(End end) {
    if (waiting_.rows > 0) end(waiting_);
    waiting_.rows = 0;
  }

 private:
  SumBlock waiting_ = {};
  int turn_ = 0;
  alignas(64) float held_[2][kMatrixRows * kMatrixRows];
};

// Numbers that are added to each sum before it ends: rows of sums, and then the bias. Either may be
// nullptr.
struct Addends {
  const float* sums;
  int64_t step;
  const float* bias;
};

// Adds to the sums of a block. Without a bias, a sum of -0 becomes 0, as where tiles end sums.
inline void add_to_sums(const SumBlock& block, const Addends& added) {
  for (int64_t v = 0; v < block.columns; v += kLanes) {
    const Mask mask = first_lanes(std::min<int64_t>(kLanes, block.columns - v));
    const Widest constant = added.bias ? load(added.bias + v, mask) : spread<Widest>(0);
    float* sums = block.sums + v;
    for (int64_t i = 0; i < block.rows; ++i, sums += kMatrixRows) {
      Widest sum = load<Widest>(sums);
      if (added.sums) sum = load(added.sums + i * added.step + v, mask) + sum;
      store(sums, sum + constant);
    }
  }
}

// Ends a block of sums as halves.
inline void end_sums(const SumBlock& block, const Addends& added, const HalfEnding& ending) {
  const bool chains = ending.scale || ending.added || ending.low > -INFINITY ||
                      ending.high < INFINITY || ending.rounding.at_random;
  if (chains || added.sums || added.bias || block.columns < kMatrixRows ||
      ending.element != Element::kBfloat) {
    add_to_sums(block, added);
    return kernel_set().half_blocks.end(ending, block.sums, kMatrixRows, block.rows, block.columns);
  }
  const float* sums = block.sums;
  uint16_t* to = ending.to;
  const Widest zero = spread<Widest>(0);
  for (int64_t i = 0; i < block.rows; ++i, sums += kMatrixRows, to += ending.row_step) {
    store_normal_bfloats(to, load<Widest>(sums) + zero, load<Widest>(sums + kLanes) + zero);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
