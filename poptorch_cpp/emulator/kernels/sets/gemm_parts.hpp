// Float16 as sums of two bfloat16, where one instruction multiplies matrices of these
// (amx_bf16.hpp). The first part is the element rounded to nearest, the second one what is left;
// both are exact and normal numbers or zero, and so are their products.
#pragma once

#include "emulator/kernels/sets/gemm_matrices.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int kParts = 2;

// Looks for infinities and NaN in lanes of floats. Their parts are not exact.
class FiniteSearch {
 public:
  void see(Widest x) {
    const auto bits = reinterpret_cast<WidestWords>(x);
    const WidestWords magnitude = bits + bits;  // without the sign
    greatest_ = magnitude > greatest_ ? magnitude : greatest_;
  }
  bool is_finite(int64_t lane) const { return greatest_[lane] < kInfinity; }
  bool are_finite() const {
    uint32_t held[kLanes];
    std::memcpy(held, &greatest_, sizeof(greatest_));
    return *std::max_element(held, held + kLanes) < kInfinity;
  }

 private:
  static constexpr uint32_t kInfinity = 0xff000000u;
  WidestWords greatest_ = WidestWords{};
};

// Rounds to the upper half of a word: to nearest, ties away from zero.
inline Widest upper_part(Widest x) {
  const WidestWords rounded = reinterpret_cast<WidestWords>(x) + 0x8000u;
  return reinterpret_cast<Widest>(rounded & 0xffff0000u);
}

// Stores words of pairs for each part of kLanes elements at even and at odd positions of k. Words
// of different parts are a matrix apart.
inline void store_parts(Widest even, Widest odd, uint32_t* words) {
  const Widest a = upper_part(even), b = upper_part(odd);
  store_exact_bfloats(reinterpret_cast<uint16_t*>(words), a, b);
  store_exact_bfloats(reinterpret_cast<uint16_t*>(words + kSide * kSide), even - a, odd - b);
}

// Loads kLanes elements, of which all from `count` on are zero.
inline Widest load_lanes(const uint16_t* x, int64_t count) {
  if (count >= kLanes) return load_half<Widest>(x);
  return count > 0 ? Elements<Element::kHalf>::load_first(x, count) : Widest{};
}

// A block of rows as matrices of parts. k is filled up with zeros.
class LeftParts {
 public:
  // Takes at most kPartRows rows of `depth` elements.
  void take(const OperandView& a, int64_t rows, int64_t depth) {
    steps_ = (depth + kMatrixDepth - 1) / kMatrixDepth;
    a.col == 1 ? take_rows(a, rows, depth) : take_columns(a, rows, depth);
  }
  int64_t steps() const { return steps_; }
  // Returns the matrices from a row on that is a multiple of kSide. Others follow block() words
  // apart.
  const uint32_t* at(int64_t row) const { return words_ + row / kSide * block(); }
  int64_t block() const { return steps_ * kWords; }
  const ExactRows<kPartRows>& exact() const { return exact_; }

 private:
  static constexpr int64_t kWords = kParts * kSide * kSide;  // of a step

  uint32_t* words(int64_t row, int64_t step) {
    return words_ + row / kSide * block() + step * kWords + row % kSide * kSide;
  }
  void take_rows(const OperandView& a, int64_t rows, int64_t depth) {
    for (int64_t i = 0; i < rows; ++i) {
      const auto* row = a.from(i, 0).as<uint16_t>();
      FiniteSearch search;
      for (int64_t s = 0; s < steps_; ++s, row += kMatrixDepth) {
        const int64_t rest = depth - s * kMatrixDepth;
        const Widest x = load_lanes(row, rest);
        const Widest y = load_lanes(row + kLanes, rest - kLanes);
        search.see(x), search.see(y);
        store_parts(even_lanes(x, y), odd_lanes(x, y), words(i, s));
      }
      exact_.set(i, search.are_finite());
    }
  }
  void take_columns(const OperandView& a, int64_t rows, int64_t depth) {
    alignas(64) uint32_t held[kWords];  // as rows of pairs
    for (int64_t i = 0; i < rows; i += kSide) {
      const int64_t count = std::min(kSide, rows - i);
      FiniteSearch search;
      for (int64_t s = 0; s < steps_; ++s) {
        for (int64_t q = 0; q < kSide; ++q) {
          const int64_t p = s * kMatrixDepth + 2 * q;
          const Widest x = column(a, i, p, count, depth), y = column(a, i, p + 1, count, depth);
          search.see(x), search.see(y);
          store_parts(x, y, held + q * kSide);
        }
        for (int64_t part = 0; part < kParts; ++part) {
          transpose_matrix(held + part * kSide * kSide, kSide, words(i, s) + part * kSide * kSide,
                           kSide, kSide, count);
        }
      }
      for (int64_t lane = 0; lane < count; ++lane) {
        exact_.set(i + lane, search.is_finite(lane));
      }
    }
  }
  // Returns the elements of rows [i, i + count) at position p.
  static Widest column(const OperandView& a, int64_t i, int64_t p, int64_t count, int64_t depth) {
    if (p >= depth) return Widest{};
    const auto* from = a.from(i, p).as<uint16_t>();
    if (a.row == 1) return load_lanes(from, count);
    uint16_t held[kSide];
    for (int64_t lane = 0; lane < count; ++lane) held[lane] = from[lane * a.row];
    return load_lanes(held, count);
  }

  alignas(64) uint32_t words_[kParts * kPartRows * kDepth / 2];
  ExactRows<kPartRows> exact_;
  int64_t steps_ = 0;
};

// Up to two panels as matrices of parts.
class RightParts {
 public:
  RightParts(const PanelRows& panels, int64_t depth) : panels_(panels), depth_(depth) {}

  // Returns the matrices of `columns` (at most kMatrixRows) from column j on.
  RightMatrices take(int64_t j, int64_t columns) {
    const int64_t steps = (depth_ + kMatrixDepth - 1) / kMatrixDepth, block = steps * kWords;
    exact_.all();
    for (int64_t panel = 0; panel * kPanel < columns; ++panel) {
      exact_.set(panel,
                 take_panel(panels_.stored(j + panel * kPanel), depth_, words_ + panel * block));
    }
    return {words_, block, steps};
  }
  const ExactRows<2>& exact() const { return exact_; }

 private:
  static constexpr int64_t kWords = kParts * kSide * kSide;  // of a step

  static bool take_panel(const uint16_t* row, int64_t depth, uint32_t* words) {
    FiniteSearch search;
    for (int64_t p = 0; p < depth; p += kMatrixDepth, words += kWords) {
      for (int64_t q = 0; q < kSide; ++q, row += 2 * kPanel) {
        const int64_t rest = (depth - p - 2 * q) * kPanel;
        const Widest x = load_lanes(row, rest);
        const Widest y = load_lanes(row + kPanel, rest - kPanel);
        search.see(x), search.see(y);
        store_parts(x, y, words + q * kSide);
      }
    }
    return search.are_finite();
  }

  alignas(64) uint32_t words_[kParts * kMatrixRows * kDepth / 2];
  const PanelRows& panels_;
  int64_t depth_;
  ExactRows<2> exact_;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
