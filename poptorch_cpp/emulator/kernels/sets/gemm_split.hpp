// Floats as sums of three bfloat16, which one instruction multiplies by bfloat16 (amx_bf16.hpp).
// Each part is what the parts before it leave, rounded to nearest: the parts and their products are
// exact.
#pragma once

#include "emulator/kernels/sets/gemm_parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int kSplit = 3;

// Looks for numbers whose parts are not exact: infinities, NaN, those that round to infinity, and
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
  bool are_exact() const {
    constexpr uint32_t kTooGreat = 2 * 0x7f000000u, kLeast = 2 * (27u << 23);  // 2^127 and 2^-100
    uint32_t greatest[kLanes], least[kLanes];
    std::memcpy(greatest, &greatest_, sizeof(greatest_));
    std::memcpy(least, &least_, sizeof(least_));
    return *std::max_element(greatest, greatest + kLanes) < kTooGreat &&
           *std::min_element(least, least + kLanes) >= kLeast - 1;
  }

 private:
  WidestWords greatest_ = WidestWords{}, least_ = WidestWords{} - 1;
};

// A block of rows of floats as matrices of parts. k is filled up with zeros.
class LeftSplit {
 public:
  // Takes at most kRowBlock rows of `depth` contiguous elements.
  void take(const MatrixView& a, int64_t rows, int64_t depth) {
    steps_ = (depth + kMatrixDepth - 1) / kMatrixDepth;
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = a.from(i, 0).data;
      SplitSearch search;
      for (int64_t s = 0; s < steps_; ++s) {
        const int64_t p = s * kMatrixDepth, rest = depth - p;
        const Widest x = load_floats(row + p, rest);
        const Widest y = load_floats(row + p + kLanes, rest - kLanes);
        search.see(x), search.see(y);
        store_split(even_lanes(x, y), odd_lanes(x, y),
                    words_ + i / kSide * block() + s * kWords + i % kSide * kSide);
      }
      exact_.set(i, search.are_exact());
    }
  }
  const uint32_t* at(int64_t row) const { return words_ + row / kSide * block(); }
  int64_t block() const { return steps_ * kWords; }
  const ExactRows<kRowBlock>& exact() const { return exact_; }

 private:
  static constexpr int64_t kWords = kSplit * kSide * kSide;  // of a step

  static Widest load_floats(const float* x, int64_t count) {
    if (count >= kLanes) return load<Widest>(x);
    return count > 0 ? load(x, first_lanes(count)) : Widest{};
  }
  static void store_split(Widest even, Widest odd, uint32_t* words) {
#pragma GCC unroll 3
    for (int part = 0; part < kSplit; ++part, words += kSide * kSide) {
      const Widest a = upper_part(even), b = upper_part(odd);
      store_pairs(a, b, words);
      even = even - a, odd = odd - b;
    }
  }
  // Stores words of pairs: as those of panels, the element of the even position is in the upper
  // half.
  static void store_pairs(Widest even, Widest odd, uint32_t* words) {
    store_exact_bfloats(reinterpret_cast<uint16_t*>(words), odd, even);
  }

  alignas(64) uint32_t words_[kSplit * kRowBlock * kDepth / 2];
  ExactRows<kRowBlock> exact_;
  int64_t steps_ = 0;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
