// Floats and float16 as sums of bfloat16, where one instruction multiplies matrices of these
// (amx_bf16.hpp). Each part is what the parts before it leave, rounded to nearest: the parts and
// their products are exact.
#pragma once

#include <vector>

#include "emulator/kernels/sets/gemm_matrices.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Looks for infinities and NaN in lanes of floats. Their parts are not exact.
class FiniteSearch {
 public:
  void see(Widest x) {
    const auto bits = reinterpret_cast<WidestWords>(x);
    const WidestWords magnitude = bits + bits;  // without the sign
    greatest_ = magnitude > greatest_ ? magnitude : greatest_;
  }
  bool is_exact(int64_t lane) const { return greatest_[lane] < kInfinity; }
  bool are_exact() const {
    uint32_t held[kLanes];
    std::memcpy(held, &greatest_, sizeof(greatest_));
    return *std::max_element(held, held + kLanes) < kInfinity;
  }

 private:
  static constexpr uint32_t kInfinity = 0xff000000u;
  WidestWords greatest_ = WidestWords{};
};

// Looks for floats whose parts are not exact: infinities, NaN, those that round to infinity, and
// those whose last part may be a denormal.
class SplitSearch {
 public:
  void see(Widest x) {
    const auto bits = reinterpret_cast<WidestWords>(x);
    const WidestWords magnitude = bits + bits;  // without the sign
    const WidestWords wrapped = magnitude - 1;  // zero becomes the greatest number
    greatest_ = magnitude > greatest_ ? magnitude : greatest_;
    least_ = wrapped < least_ ? wrapped : least_;
  }
  bool is_exact(int64_t lane) const {
    return greatest_[lane] < kTooGreat && least_[lane] >= kLeast - 1;
  }
  bool are_exact() const {
    uint32_t greatest[kLanes], least[kLanes];
    std::memcpy(greatest, &greatest_, sizeof(greatest_));
    std::memcpy(least, &least_, sizeof(least_));
    return *std::max_element(greatest, greatest + kLanes) < kTooGreat &&
           *std::min_element(least, least + kLanes) >= kLeast - 1;
  }

 private:
  static constexpr uint32_t kTooGreat = 2 * 0x7f000000u, kLeast = 2 * (27u << 23);  // 2^127, 2^-100
  WidestWords greatest_ = WidestWords{}, least_ = WidestWords{} - 1;
};

// The parts of elements of a type. load_lanes() returns kLanes of them, of which all from `lanes`
// on are zero.
template <Element element, int count, typename Finder>
struct PartsOf {
  static constexpr int kCount = count;
  using Stored = typename Elements<element>::Stored;
  using Search = Finder;
  static Widest load_lanes(const Stored* x, int64_t lanes) {
    if (lanes >= kLanes) return Elements<element>::template load_all<Widest>(x);
    return lanes > 0 ? Elements<element>::load_first(x, lanes) : Widest{};
  }
};
using HalfParts = PartsOf<Element::kHalf, 2, FiniteSearch>;
using FloatParts = PartsOf<Element::kFloat, 3, SplitSearch>;

// Rounds to the upper half of a word: to nearest, ties away from zero.
inline Widest upper_part(Widest x) {
  const WidestWords rounded = reinterpret_cast<WidestWords>(x) + 0x8000u;
  return reinterpret_cast<Widest>(rounded & 0xffff0000u);
}

// Stores words of pairs for each part of kLanes elements at even and at odd positions of k. As in
// panels of pairs, the element of the even position is in the upper half. Words of different parts
// are a matrix apart.
template <int parts>
[[gnu::always_inline]] inline void store_parts(Widest even, Widest odd, uint32_t* words) {
#pragma GCC unroll 3
  for (int part = 0; part < parts; ++part, words += kSide * kSide) {
    const bool last = part + 1 == parts;  // is exact
    const Widest a = last ? even : upper_part(even), b = last ? odd : upper_part(odd);
    store_exact_bfloats(reinterpret_cast<uint16_t*>(words), b, a);
    even = even - a, odd = odd - b;
  }
}

// Returns this thread's memory for a block's words, which a small stack would not hold.
template <int64_t count>
uint32_t* words_of_thread() {
  struct alignas(64) Line {
    uint32_t words[16];
  };
  static_assert(count % 16 == 0);
  static thread_local std::vector<Line> lines(count / 16);
  return lines.front().words;
}

// A block of rows as matrices of parts. k is filled up with zeros. A thread has one at a time.
template <typename Form>
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
  using Stored = typename Form::Stored;
  static constexpr int64_t kWords = Form::kCount * kSide * kSide;  // of a step
  static constexpr int64_t kLine = 64 / sizeof(Stored), kRowsAhead = 4;

  uint32_t* words(int64_t row, int64_t step) {
    return words_ + row / kSide * block() + step * kWords + row % kSide * kSide;
  }
  void take_rows(const OperandView& a, int64_t rows, int64_t depth) {
    for (int64_t i = 0; i < rows; ++i) {
      const auto* row = a.from(i, 0).template as<Stored>();
      typename Form::Search search;
      for (int64_t s = 0; s < steps_; ++s, row += kMatrixDepth) {
        // Rows are far apart, and shorter than what the processor would prefetch.
        for (int64_t p = 0; p < kMatrixDepth; p += kLine) {
          __builtin_prefetch(row + kRowsAhead * a.row + p);
        }
        const int64_t rest = depth - s * kMatrixDepth;
        const Widest x = Form::load_lanes(row, rest);
        const Widest y = Form::load_lanes(row + kLanes, rest - kLanes);
        search.see(x), search.see(y);
        store_parts<Form::kCount>(even_lanes(x, y), odd_lanes(x, y), words(i, s));
      }
      exact_.set(i, search.are_exact());
    }
  }
  void take_columns(const OperandView& a, int64_t rows, int64_t depth) {
    alignas(64) uint32_t held[kWords];  // as rows of pairs
    for (int64_t i = 0; i < rows; i += kSide) {
      const int64_t count = std::min(kSide, rows - i);
      typename Form::Search search;
      for (int64_t s = 0; s < steps_; ++s) {
        for (int64_t q = 0; q < kSide; ++q) {
          const int64_t p = s * kMatrixDepth + 2 * q;
          const Widest x = column(a, i, p, count, depth), y = column(a, i, p + 1, count, depth);
          search.see(x), search.see(y);
          store_parts<Form::kCount>(x, y, held + q * kSide);
        }
        for (int64_t part = 0; part < Form::kCount; ++part) {
          transpose_matrix(held + part * kSide * kSide, kSide, words(i, s) + part * kSide * kSide,
                           kSide, kSide, count);
        }
      }
      for (int64_t lane = 0; lane < count; ++lane) {
        exact_.set(i + lane, search.is_exact(lane));
      }
    }
  }
  // Returns the elements of rows [i, i + count) at position p.
  static Widest column(const OperandView& a, int64_t i, int64_t p, int64_t count, int64_t depth) {
    if (p >= depth) return Widest{};
    const auto* from = a.from(i, p).template as<Stored>();
    if (a.row == 1) return Form::load_lanes(from, count);
    Stored held[kSide];
    for (int64_t lane = 0; lane < count; ++lane) held[lane] = from[lane * a.row];
    return Form::load_lanes(held, count);
  }

  uint32_t* words_ = words_of_thread<Form::kCount * kPartRows * kDepth / 2>();
  ExactRows<kPartRows> exact_;
  int64_t steps_ = 0;
};

// Up to two panels as matrices of parts.
template <typename Form>
class RightParts {
 public:
  RightParts(const PanelRows& panels, int64_t depth) : panels_(panels), depth_(depth) {}

  // Returns the matrices of `columns` (at most kMatrixRows) from column j on.
  RightMatrices take(int64_t j, int64_t columns) {
    const int64_t steps = (depth_ + kMatrixDepth - 1) / kMatrixDepth, block = steps * kWords;
    exact_.all();
    const auto at = [&](int64_t column) { return panels_.template stored<Stored>(column); };
    const int64_t ahead = at(j + kMatrixRows) - at(j);
    for (int64_t panel = 0; panel * kPanel < columns; ++panel) {
      exact_.set(panel, take_panel(at(j + panel * kPanel), ahead, words_ + panel * block));
    }
    return {words_, block, steps};
  }
  const ExactRows<2>& exact() const { return exact_; }

 private:
  using Stored = typename Form::Stored;
  static constexpr int64_t kWords = Form::kCount * kSide * kSide;  // of a step

  // Takes a panel, and loads that which lies `ahead` elements further into L2.
  bool take_panel(const Stored* row, int64_t ahead, uint32_t* words) const {
    typename Form::Search search;
    for (int64_t p = 0; p < depth_; p += kMatrixDepth, words += kWords) {
      for (int64_t q = 0; q < kSide; ++q, row += 2 * kPanel) {
        __builtin_prefetch(row + ahead, 0, 2);
        __builtin_prefetch(row + ahead + kPanel, 0, 2);
        const int64_t rest = (depth_ - p - 2 * q) * kPanel;
        const Widest x = Form::load_lanes(row, rest);
        const Widest y = Form::load_lanes(row + kPanel, rest - kPanel);
        search.see(x), search.see(y);
        store_parts<Form::kCount>(x, y, words + q * kSide);
      }
    }
    return search.are_exact();
  }

  alignas(64) uint32_t words_[Form::kCount * kMatrixRows * kDepth / 2];
  const PanelRows& panels_;
  int64_t depth_;
  ExactRows<2> exact_;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
