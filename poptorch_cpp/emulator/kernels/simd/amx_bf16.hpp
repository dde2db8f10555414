// Products of matrices of pairs of bfloat16 in the tile registers of AMX.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstdint>

#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr bool kMultipliesMatrices = true;

// The tile registers of this thread, while it exists: 16 rows of 16 words each.
class MatrixRegisters {
 public:
  MatrixRegisters() {
    struct alignas(64) {
      uint8_t palette = 1, first_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    _tile_loadconfig(&config);
  }
  ~MatrixRegisters() { _tile_release(); }
  MatrixRegisters(const MatrixRegisters&) = delete;
  MatrixRegisters& operator=(const MatrixRegisters&) = delete;

  // Computes the sums of R × C blocks of 16 × 16: see multiply_matrices(). Registers 0 to 3 have
  // sums, 4 and 5 rows of the left operand, 6 and 7 columns of the right one.
  template <int left_parts, int right_parts, int R, int C>
  static void multiply(const uint32_t* left, int64_t left_block, const RightMatrices& right,
                       float* sums) {
    constexpr int kRow = 64;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const uint32_t* from = right.words;
    constexpr int64_t kStep = 256 * right_parts;
    for (int64_t s = 0; s < right.steps; ++s, left += 256 * left_parts, from += kStep) {
      add<left_parts, right_parts, R, C>(left, left_block, from, right.block);
    }
    if (right.last) add<left_parts, right_parts, R, C>(left, left_block, right.last, kStep);
    _tile_stored(0, sums, 2 * kRow);
    if (C == 2) _tile_stored(1, sums + 16, 2 * kRow);
    if (R == 2) _tile_stored(2, sums + 16 * 32, 2 * kRow);
    if (R == 2 && C == 2) _tile_stored(3, sums + 16 * 32 + 16, 2 * kRow);
  }

 private:
  // A product of a part of each operand.
  struct Term {
    int left, right;
  };
  // The terms of a product of sums of parts, in an order in which neighbours share an operand.
  // Three parts by three leave out about 2^-24 of a product, or less.
  template <int left_parts, int right_parts>
  static constexpr auto kTerms = [] {
    if constexpr (left_parts == 1) return std::array{Term{0, 0}};
    if constexpr (left_parts == 2)
      return std::array{Term{1, 0}, Term{1, 1}, Term{0, 1}, Term{0, 0}};
    if constexpr (left_parts == 3 && right_parts == 1) {
      return std::array{Term{2, 0}, Term{1, 0}, Term{0, 0}};
    }
    if constexpr (left_parts == 3 && right_parts == 3) {
      return std::array{Term{2, 0}, Term{1, 0}, Term{1, 1}, Term{0, 1}, Term{0, 2}, Term{0, 0}};
    }
  }();

  // Adds the products of a step.
  template <int left_parts, int right_parts, int R, int C>
  [[gnu::always_inline]] static void add(const uint32_t* left, int64_t left_block,
                                         const uint32_t* right, int64_t right_block) {
    constexpr int kRow = 64;
    constexpr auto kOrder = kTerms<left_parts, right_parts>;
#pragma GCC unroll 6
    for (size_t i = 0; i < kOrder.size(); ++i) {
      const Term term = kOrder[i], before = i > 0 ? kOrder[i - 1] : Term{-1, -1};
      if (term.right != before.right) {
        _tile_loadd(6, right + 256 * term.right, kRow);
        if (C == 2) _tile_loadd(7, right + right_block + 256 * term.right, kRow);
      }
      if (term.left != before.left) _tile_loadd(4, left + 256 * term.left, kRow);
      _tile_dpbf16ps(0, 4, 6);
      if (C == 2) _tile_dpbf16ps(1, 4, 7);
      if (R == 1) continue;
      if (term.left != before.left) _tile_loadd(5, left + left_block + 256 * term.left, kRow);
      _tile_dpbf16ps(2, 5, 6);
      if (C == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
};

// Computes `rows` (at most 32) by `columns` (at most 32) sums of the steps of `right`, with 32 sums
// a row. The left operand has blocks of 16 × 16 pairs as well; 16 rows lie a block apart. Elements
// are sums of parts, each of which has a block of pairs; the blocks of a step are contiguous. The
// even and the odd positions of 16 pairs are summed apart, then added; denormals are zeros.
template <int left_parts, int right_parts>
void multiply_matrices(const MatrixRegisters&, int64_t rows, int64_t columns, const uint32_t* left,
                       int64_t left_block, const RightMatrices& right, float* sums) {
  const auto multiply_by = [&]<int R, int C>() {
    MatrixRegisters::multiply<left_parts, right_parts, R, C>(left, left_block, right, sums);
  };
  if (rows > 16) {
    columns > 16 ? multiply_by.template operator()<2, 2>()
                 : multiply_by.template operator()<2, 1>();
  } else {
    columns > 16 ? multiply_by.template operator()<1, 2>()
                 : multiply_by.template operator()<1, 1>();
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
