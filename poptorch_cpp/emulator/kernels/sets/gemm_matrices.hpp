// Rows of bfloat16 as matrices of pairs, where one instruction multiplies matrices (amx_bf16.hpp).
#pragma once

#include "emulator/kernels/base/transpose_block.hpp"
#include "emulator/kernels/sets/gemm_panel_rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int64_t kSide = kPanel;            // of a matrix of pairs
constexpr int64_t kMatrixRows = 2 * kSide;   // rows, and columns, that are multiplied at once
constexpr int64_t kMatrixDepth = 2 * kSide;  // of k in a matrix
static_assert(!kMultipliesMatrices || kMatrixRows == kTileColumns);

inline bool is_denormal(uint16_t x) { return (x & 0x7f80) == 0 && (x & 0x7f) != 0; }

// Blocks of the left operand, filled up with zeros along k. The instruction takes denormals as
// zeros, so rows that have one are marked: they are multiplied as floats.
class LeftMatrices {
 public:
  // Takes at most kMatrixBlock rows of at most kDepth elements.
  void take(const OperandView& a, int64_t rows, int64_t depth) {
    steps_ = (depth + kMatrixDepth - 1) / kMatrixDepth;
    DenormalSearch denormals;
    if (a.col == 1) {
      take_rows(a, rows, depth, denormals);
    } else {
      for (int64_t i = 0; i < rows; i += kRowBlock) {
        take_columns(a.from(i, 0), std::min(kRowBlock, rows - i), depth, denormals, i);
      }
    }
    std::fill_n(marked_, rows, false);
    if (!denormals.found()) return;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < depth; ++p) marked_[i] |= is_denormal(*a.from(i, p).as<uint16_t>());
    }
  }
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
      for (int64_t p = 0; p < depth; p += kMatrixDepth) {
        uint32_t* pairs = matrix(i, p / kMatrixDepth) + i % kSide * kSide;
        if (p + kMatrixDepth <= depth) {
          pair_neighbours(row + p, kSide, pairs);
        } else {
          uint16_t last[kMatrixDepth] = {};
          std::copy(row + p, row + depth, last);
          pair_neighbours(last, kSide, pairs);
        }
      }
    }
  }
  // Takes rows of columns as the rows from `first` on, which is a multiple of kSide.
  void take_columns(const OperandView& a, int64_t rows, int64_t depth, DenormalSearch& denormals,
                    int64_t first) {
    static_assert(kRowBlock % kSide == 0);
    uint32_t pairs[kSide][kRowBlock];
    for (int64_t p = 0; p < steps_ * kMatrixDepth; p += 2) {
      uint32_t* of_rows = pairs[p / 2 % kSide];
      if (p < depth) {
        pair_columns(a.from(0, p), std::min<int64_t>(depth - p, 2), rows, denormals, of_rows);
      } else {
        std::fill_n(of_rows, rows, 0);
      }
      if ((p + 2) % kMatrixDepth != 0) continue;
      for (int64_t i = 0; i < rows; i += kSide) {
        transpose_matrix(pairs[0] + i, kRowBlock, matrix(first + i, p / kMatrixDepth), kSide, kSide,
                         std::min(kSide, rows - i));
      }
    }
  }

  alignas(64) uint32_t pairs_[kMatrixBlock * kDepth / 2];
  bool marked_[kMatrixBlock];
  int64_t steps_ = 0;
};

// Up to two panels of pairs as matrices: in place, except a last step that is filled up with zeros.
class RightPairs {
 public:
  RightPairs(const PanelRows& panels, int64_t depth) : panels_(panels), depth_(depth) {}

  // Returns the matrices of `columns` (at most kMatrixRows) from column j on.
  RightMatrices take(int64_t j, int64_t columns) {
    const int64_t steps = depth_ / kMatrixDepth, rest = depth_ % kMatrixDepth;
    const auto words = [](const uint16_t* x) { return reinterpret_cast<const uint32_t*>(x); };
    RightMatrices taken{words(panels_.stored(j)), panels_.pair_step(), steps};
    if (rest == 0) return taken;
    for (int64_t first = 0; first < columns; first += kPanel) {
      uint32_t* last = last_ + first / kPanel * kSide * kSide;
      const uint16_t* from = panels_.stored(j + first) + steps * kMatrixDepth * kPanel;
      std::memcpy(last, from, static_cast<size_t>(rest / 2 * kPanel) * sizeof(uint32_t));
      if (rest % 2 == 0) continue;
      // The last row is not a row of pairs.
      const uint16_t* row = from + (rest - 1) * kPanel;
      for (int64_t i = 0; i < kPanel; ++i) last[rest / 2 * kPanel + i] = pair_of(row[i], 0);
    }
    taken.last = last_;
    return taken;
  }

 private:
  const PanelRows& panels_;
  int64_t depth_;
  alignas(64) uint32_t last_[2 * kSide * kSide] = {};
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
