// Softmax, its logarithm and their gradients along an axis that is not the innermost: blocks of
// neighbouring columns at a time, so that all of a row's elements in the block make vectors.
#pragma once

#include <algorithm>
#include <cmath>

#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET::columns {

constexpr int64_t kMost = 64;  // columns at a time; their sums stay in L1

// A block of at most kMost columns of n rows, `step` elements apart.
struct Block {
  int64_t n, step, width;
  // Calls f(row's first element, column) for each element, in the order of memory.
  template <typename F>
  void for_each(F f) const {
    for (int64_t row = 0; row < n; ++row) {
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) f(row * step + c, c);
    }
  }
};

// Writes the greatest element of each column to `tops`, and the sum of exp(x - top) to `totals`.
// The terms of the sums are written to y.
inline void sum_of_powers(const Block& block, const float* x, float* y, float* tops,
                          float* totals) {
  std::fill_n(tops, kMost, -INFINITY);
  std::fill_n(totals, kMost, 0.0f);
  block.for_each([=](int64_t i, int64_t c) { tops[c] = x[i] > tops[c] ? x[i] : tops[c]; });
  block.for_each([=](int64_t i, int64_t c) {
    y[i] = vec::exp(x[i] - tops[c]);
    totals[c] += y[i];
  });
}

inline void softmax(const Block& block, const float* const* x, float* y) {
  float tops[kMost], scales[kMost];
  sum_of_powers(block, x[0], y, tops, scales);
  for (float& scale : scales) scale = 1.0f / scale;
  block.for_each([=, &scales](int64_t i, int64_t c) { y[i] *= scales[c]; });
}

inline void log_softmax(const Block& block, const float* const* operands, float* y) {
  const float* x = operands[0];
  float tops[kMost], shifts[kMost];
  sum_of_powers(block, x, y, tops, shifts);
  for (float& shift : shifts) shift = vec::log(shift);
  block.for_each(
      [=, &tops, &shifts](int64_t i, int64_t c) { y[i] = (x[i] - tops[c]) - shifts[c]; });
}

inline void softmax_grad(const Block& block, const float* const* operands, float* dx) {
  const float *y = operands[0], *dy = operands[1];
  float totals[kMost] = {};
  block.for_each([=, &totals](int64_t i, int64_t c) { totals[c] += y[i] * dy[i]; });
  block.for_each([=, &totals](int64_t i, int64_t c) { dx[i] = y[i] * (dy[i] - totals[c]); });
}

inline void log_softmax_grad(const Block& block, const float* const* operands, float* dx) {
  const float *y = operands[0], *dy = operands[1];
  float totals[kMost] = {};
  block.for_each([=, &totals](int64_t i, int64_t c) { totals[c] += dy[i]; });
  block.for_each(
      [=, &totals](int64_t i, int64_t c) { dx[i] = dy[i] - vec::exp(y[i]) * totals[c]; });
}

using Function = void (*)(const Block&, const float* const* operands, float* result);

// Runs a function of operands of one shape over blocks of columns.
class Kernel final : public BoundKernel {
 public:
  Kernel(const Lines& lines, int operands, int64_t element_ns, Function function)
      : lines_(lines),
        blocks_(divide_up(lines.inner, kMost)),
        operands_(operands),
        ns_(lines.count() * lines.size * element_ns),
        parts_(parts_for(ns_, lines.outer * blocks_)),
        function_(function) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range items = part_of(lines_.outer * blocks_, parts_, task);
    for (int64_t item = items.begin; item < items.end; ++item) {
      const int64_t column = item % blocks_ * kMost;
      const int64_t first = item / blocks_ * lines_.size * lines_.inner + column;
      const float* operands[2] = {};
      for (int k = 0; k < operands_; ++k) operands[k] = input_of<float>(args, k) + first;
      function_({lines_.size, lines_.inner, std::min(kMost, lines_.inner - column)}, operands,
                buffer_of<float>(args, operands_) + first);
    }
  }

 private:
  Lines lines_;
  int64_t blocks_;
  int operands_;
  int64_t ns_, parts_;
  Function function_;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET::columns
