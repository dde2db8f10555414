// Rows of bfloat16 as matrices of pairs, where one instruction multiplies matrices (amx_bf16.hpp).
#pragma once

#include "emulator/kernels/base/transpose_block.hpp"
#include "emulator/kernels/sets/gemm_pairs.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int64_t kSide = kPanel;            // of a matrix of pairs
constexpr int64_t kMatrixRows = 2 * kSide;   // rows, and columns, that are multiplied at once
constexpr int64_t kMatrixDepth = 2 * kSide;  // of k in a matrix
static_assert(!kMultipliesMatrices || kMatrixRows == kTileColumns);

inline bool is_denormal(uint16_t x) { return (x & 0x7f80) == 0 && (x & 0x7f) != 0; }

// Blocks of the left operand. The instruction takes denormals as zeros, so rows that have one are
// marked: they are multiplied as floats.
class LeftMatrices {
 public:
  // Takes at most kRowBlock rows of `depth` elements; what exceeds a multiple of kMatrixDepth is
  // only searched for denormals.
  void take(const OperandView& a, int64_t rows, int64_t depth) {
    steps_ = depth / kMatrixDepth;
    DenormalSearch denormals;
    a.col == 1 ? take_rows(a, rows, depth, denormals) : take_columns(a, rows, depth, denormals);
    std::fill_n(marked_, rows, false);
    if (!denormals.found()) return;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < depth; ++p) marked_[i] |= is_denormal(*a.from(i, p).as<uint16_t>());
    }
  }
  int64_t steps() const { return steps_; }
  // Returns the blocks from a row on that is a multiple of kSide. Others follow block() words
  // apart.
  const uint32_t* at(int64_t row) const { return pairs_ + row / kSide * block(); }
  int64_t block() const { return steps_ * kSide * kSide; }
  bool is_marked(int64_t row) const { return marked_[row]; }
  bool has_marked(int64_t first, int64_t count) const {
    return std::find(marked_ + first, marked_ + first + count, true) != marked_ + first + count;
  }

 private:
  uint32_t* matrix(int64_t row, int64_t step) {
    return pairs_ + row / kSide * block() + step * kSide * kSide;
  }
  void take_rows(const OperandView& a, int64_t rows, int64_t depth, DenormalSearch& denormals) {
    for (int64_t i = 0; i < rows; ++i) {
      const uint16_t* row = a.from(i, 0).as<uint16_t>();
      search(denormals, row, depth);
      for (int64_t s = 0; s < steps_; ++s, row += kMatrixDepth) {
        pair_neighbours(row, kSide, matrix(i, s) + i % kSide * kSide);
      }
    }
  }
  void take_columns(const OperandView& a, int64_t rows, int64_t depth, DenormalSearch& denormals) {
    uint32_t pairs[kSide][kRowBlock];
    for (int64_t p = 0; p < depth; p += 2) {
      pair_columns(a.from(0, p), rows, denormals, pairs[p / 2 % kSide]);
      if ((p + 2) % kMatrixDepth != 0) continue;
      for (int64_t i = 0; i < rows; i += kSide) {
        transpose_matrix(pairs[0] + i, kRowBlock, matrix(i, p / kMatrixDepth), kSide, kSide,
                         std::min(kSide, rows - i));
      }
    }
  }

  alignas(64) uint32_t pairs_[kRowBlock * kDepth / 2];  // as many floats as a block of rows
  bool marked_[kRowBlock];
  int64_t steps_ = 0;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
