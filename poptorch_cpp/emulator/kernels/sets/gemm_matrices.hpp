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

// Which rows of a block have the sums of the loops on floats, apart from the order.
template <int64_t most>
class ExactRows {
 public:
  void all() { std::fill_n(exact_, most, true); }
  void set(int64_t row, bool exact) { exact_[row] = exact; }
  bool holds(int64_t row) const { return exact_[row]; }
  bool are(int64_t first, int64_t count) const {
    return std::find(exact_ + first, exact_ + first + count, false) == exact_ + first + count;
  }

 private:
  bool exact_[most];
};

// Blocks of the left operand, filled up with zeros along k. The instruction takes denormals as
// zeros, so rows that have one are not exact: they are multiplied as floats.
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
    exact_.all();
    if (!denormals.found()) return;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < depth; ++p) {
        if (is_denormal(*a.from(i, p).as<uint16_t>())) exact_.set(i, false);
      }
    }
  }
  // Returns the blocks from a row on that is a multiple of kSide. Others follow block() words
  // apart.
  const uint32_t* at(int64_t row) const { return pairs_ + row / kSide * block(); }
  int64_t block() const { return steps_ * kSide * kSide; }
  const ExactRows<kMatrixBlock>& exact() const { return exact_; }

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
  ExactRows<kMatrixBlock> exact_;
  int64_t steps_ = 0;
};

// Up to two panels of pairs as matrices: in place, except a last step that is filled up with zeros.
class RightPairs {
 public:
  // `finite` requires that exact panels have neither infinities nor NaN.
  RightPairs(const PanelRows& panels, int64_t depth, bool finite)
      : panels_(panels), depth_(depth), finite_(finite) {}

  // Returns the matrices of `columns` (at most kMatrixRows) from column j on.
  RightMatrices take(int64_t j, int64_t columns) {
    const int64_t steps = depth_ / kMatrixDepth, rest = depth_ % kMatrixDepth;
    exact_.all();
    for (int64_t panel = 0; panel * kPanel < columns; ++panel) {
      const uint16_t* from = panels_.stored<uint16_t>(j + panel * kPanel);
      exact_.set(panel, is_exact(from));
      if (rest > 0) fill_up(from + steps * kMatrixDepth * kPanel, rest, panel);
    }
    const auto* words = reinterpret_cast<const uint32_t*>(panels_.stored<uint16_t>(j));
    return {words, panels_.pair_step(), steps, rest > 0 ? last_ : nullptr};
  }
  const ExactRows<2>& exact() const { return exact_; }

 private:
  bool is_exact(const uint16_t* panel) const {
    const int64_t n = kPanel * depth_;
    DenormalSearch denormals;
    if (!finite_) {
      search(denormals, panel, n);
      return !denormals.found();
    }
    WidestHalves greatest{};  // without the sign
    auto see = [&](WidestHalves x) __attribute__((always_inline)) {
      denormals.see(x);
      x += x;
      greatest = x > greatest ? x : greatest;
    };
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) see(load_halves(panel + i));
    if (i < n) see(load_halves(panel + i, n - i));
    const auto infinite = greatest >= 0xff00;
    return !denormals.found() && !any_of(infinite);
  }
  // Copies `rest` rows of a panel. The last of an odd number is not a row of pairs.
  void fill_up(const uint16_t* from, int64_t rest, int64_t panel) {
    uint32_t* last = last_ + panel * kSide * kSide;
    std::memcpy(last, from, static_cast<size_t>(rest / 2 * kPanel) * sizeof(uint32_t));
    if (rest % 2 == 0) return;
    const uint16_t* row = from + (rest - 1) * kPanel;
    for (int64_t i = 0; i < kPanel; ++i) last[rest / 2 * kPanel + i] = pair_of(row[i], 0);
  }

  const PanelRows& panels_;
  int64_t depth_;
  bool finite_;
  ExactRows<2> exact_;
  alignas(64) uint32_t last_[2 * kSide * kSide] = {};
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
