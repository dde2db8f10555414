// Softmax, its logarithm and their gradients along an axis that is not the innermost: blocks of
// neighbouring columns at a time, so that all of a row's elements in the block make vectors.
#pragma once

#include <algorithm>
#include <cmath>

#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/sets/rows.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET::columns {

constexpr int64_t kMost = 64;   // columns at a time; their sums stay in L1
constexpr int64_t kLeast = 16;  // columns that repay a block

// A block of at most kMost columns of n rows, `step` elements apart.
struct Block {
  int64_t n, step, width;
  // Calls f with the offset of each row's first element.
  template <typename F>
  void for_each_row(F f) const {
    for (int64_t row = 0; row < n; ++row) f(row * step);
  }
};

// Writes the greatest element of each column.
template <typename X>
void find_tops(const Block& block, const X* x, float* tops) {
  std::fill_n(tops, kMost, -INFINITY);
  block.for_each_row([=, &block](int64_t at) {
    map_row(block.width, tops, [](float top, float v) { return v > top ? v : top; }, tops, x + at);
  });
}

// Writes the sum of exp(x - top) of each column.
template <typename X>
void sum_of_powers(const Block& block, const X* x, const float* tops, float* totals) {
  std::fill_n(totals, kMost, 0.0f);
  block.for_each_row([=, &block](int64_t at) {
    map_row(
        block.width, totals,
        [](float total, float v, float top) { return total + vec::exp(v - top); }, totals, x + at,
        tops);
  });
}

// Each computes a block; `scratch` has room for kMost floats of each row.
struct Softmax {
  static constexpr int kOperands = 1;
  template <typename X, typename Y>
  static void run(const Block& block, const X* const* operands, Y* y, float* scratch) {
    const X* x = operands[0];
    float tops[kMost], scales[kMost] = {};
    find_tops(block, x, tops);
    // The powers are not rounded: those of halves are in scratch.
    float* powers = scratch;
    int64_t step = kMost;
    if constexpr (kIsFloat<Y>) powers = y, step = block.step;
    for (int64_t row = 0; row < block.n; ++row) {
      float* to = powers + row * step;
      map_row(
          block.width, to, [](float v, float top) { return vec::exp(v - top); },
          x + row * block.step, tops);
      map_row(block.width, scales, [](float sum, float v) { return sum + v; }, scales, to);
    }
    for (float& scale : scales) scale = 1.0f / scale;
    for (int64_t row = 0; row < block.n; ++row) {
      map_row(
          block.width, y + row * block.step, [](float v, float scale) { return v * scale; },
          powers + row * step, scales);
    }
  }
};

struct LogSoftmax {
  static constexpr int kOperands = 1;
  template <typename X, typename Y>
  static void run(const Block& block, const X* const* operands, Y* y, float*) {
    float tops[kMost], shifts[kMost];
    find(block, operands[0], y, tops, shifts);
  }
  // The same, and returns what it subtracts from each column, one after the other.
  template <typename X, typename Y>
  static void find(const Block& block, const X* x, Y* y, float* tops, float* shifts) {
    find_tops(block, x, tops);
    sum_of_powers(block, x, tops, shifts);
    for (int64_t i = 0; i < kMost; ++i) shifts[i] = vec::log(shifts[i]);
    block.for_each_row([&](int64_t at) {
      map_row(
          block.width, y + at, [](float v, float top, float shift) { return (v - top) - shift; },
          x + at, tops, shifts);
    });
  }
};

struct SoftmaxGrad {
  static constexpr int kOperands = 2;
  template <typename X, typename Y>
  static void run(const Block& block, const X* const* operands, Y* dx, float*) {
    const X *y = operands[0], *dy = operands[1];
    float totals[kMost] = {};
    block.for_each_row([&](int64_t at) {
      map_row(
          block.width, totals, [](float total, float p, float g) { return total + p * g; }, totals,
          y + at, dy + at);
    });
    block.for_each_row([&](int64_t at) {
      map_row(
          block.width, dx + at, [](float p, float g, float total) { return p * (g - total); },
          y + at, dy + at, totals);
    });
  }
};

struct LogSoftmaxGrad {
  static constexpr int kOperands = 2;
  template <typename X, typename Y>
  static void run(const Block& block, const X* const* operands, Y* dx, float*) {
    const X *y = operands[0], *dy = operands[1];
    float totals[kMost] = {};
    block.for_each_row([&](int64_t at) {
      map_row(block.width, totals, [](float total, float g) { return total + g; }, totals, dy + at);
    });
    block.for_each_row([&](int64_t at) {
      map_row(
          block.width, dx + at,
          [](float log, float g, float total) { return g - vec::exp(log) * total; }, y + at,
          dy + at, totals);
    });
  }
};

// Runs a function of operands of one shape over blocks of columns.
template <typename Function, typename X, typename Y>
class Kernel final : public BoundKernel {
 public:
  Kernel(const Lines& lines, int64_t element_ns)
      : lines_(lines),
        blocks_(divide_up(lines.inner, kMost)),
        ns_(lines.count() * lines.size * element_ns),
        parts_(parts_for(ns_, lines.outer * blocks_)) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  int64_t scratch_bytes() const override { return kIsFloat<Y> ? 0 : lines_.size * kMost * 4; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range items = part_of(lines_.outer * blocks_, parts_, task);
    for (int64_t item = items.begin; item < items.end; ++item) {
      const int64_t column = item % blocks_ * kMost;
      const int64_t first = item / blocks_ * lines_.size * lines_.inner + column;
      const X* operands[kOperands];
      for (int k = 0; k < kOperands; ++k) operands[k] = input_of<X>(args, k) + first;
      const Block block{lines_.size, lines_.inner, std::min(kMost, lines_.inner - column)};
      Function::run(block, operands, buffer_of<Y>(args, kOperands) + first,
                    reinterpret_cast<float*>(args.scratch));
    }
  }

 private:
  static constexpr int kOperands = Function::kOperands;

  Lines lines_;
  int64_t blocks_, ns_, parts_;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET::columns
