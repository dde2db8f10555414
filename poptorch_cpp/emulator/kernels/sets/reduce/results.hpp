// The ops that reductions join elements with, and how they store the results.
#pragma once

#include "emulator/kernels/sets/held_blocks.hpp"
#include "emulator/kernels/sets/rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

struct Sum {
  static constexpr char kSign = '+';
  static constexpr double kStart = 0;
  template <typename T>
  static T join(T a, T b) {
    return a + b;
  }
};
struct Max {
  static constexpr char kSign = '>';
  static constexpr double kStart = -INFINITY;
  template <typename T>
  static T join(T a, T b) {
    a = b > a ? b : a;
    return b != b ? b : a;
  }
};
struct Min {
  static constexpr char kSign = '<';
  static constexpr double kStart = INFINITY;
  template <typename T>
  static T join(T a, T b) {
    a = b < a ? b : a;
    return b != b ? b : a;
  }
};
struct ReducedProduct {
  static constexpr char kSign = '*';
  static constexpr double kStart = 1;
  template <typename T>
  static T join(T a, T b) {
    return a * b;
  }
};

constexpr int64_t kColumns = 64;  // results at a time, whose sums stay in registers
constexpr int64_t kMostColumns = 512;

// Rounds the scaled values to elements [first, first + count) of the result.
using WriteFn = void (*)(std::byte* y, int64_t first, const double* values, int64_t count,
                         double scale);
template <typename Y>
void write_as(std::byte* y, int64_t first, const double* values, int64_t count, double scale) {
  Y* to = reinterpret_cast<Y*>(y) + first;
  auto scaled = [&](float* floats, int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) floats[i - begin] = static_cast<float>(values[i] * scale);
  };
  if constexpr (kIsFloat<Y>) {
    scaled(to, 0, count);
  } else {
    alignas(64) float held[kMostColumns];
    for (int64_t i = 0; i < count; i += kMostColumns) {
      const int64_t end = std::min(i + kMostColumns, count);
      scaled(held, i, end);
      from_floats_of<kElementOf<Y>>(held, stored_at(to + i), end - i);
    }
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
