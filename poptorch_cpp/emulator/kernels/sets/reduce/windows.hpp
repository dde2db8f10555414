// Reductions of few elements to each result.
#pragma once

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/reduce/dimensions.hpp"
#include "emulator/kernels/sets/reduce/results.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Reduces few neighbouring elements to each result, such as windows of an image: a block of results
// along the last kept dimension advances together, in double. The rows of their windows are joined
// first: they lie one after the other.
template <typename Op, typename X>
class ReduceWindows final : public BoundKernel {
 public:
  static bool fits(const Groups& g) {
    return g.inner_reduced && g.inner <= kMostInner && !g.kept_sizes.empty() &&
           g.kept_sizes.back() >= 4 && g.reduced() * g.inner <= 4096;
  }
  ReduceWindows(const Groups& groups, double scale, WriteFn write)
      : g_(groups),
        scale_(scale),
        write_(write),
        width_(g_.kept_sizes.back()),
        blocks_(divide_up(width_, kColumns)),
        items_(g_.kept() / width_ * blocks_),
        ns_(20 + g_.kept() * g_.reduced() * g_.inner / 4),
        parts_(parts_for(ns_, items_)) {
    for (int64_t r = 0; r < g_.reduced(); ++r) {
      rows_.push_back(offset_at(r, g_.reduced_sizes, g_.reduced_strides));
    }
  }
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }

  void run(const KernelArgs& args, int, int task) const override {
    const X* x = input_of<X>(args, 0);
    const Range items = part_of(items_, parts_, task);
    for (int64_t item = items.begin; item < items.end; ++item) {
      const int64_t column = item % blocks_ * kColumns, count = std::min(kColumns, width_ - column);
      const int64_t first = item / blocks_ * width_ + column;
      double values[kColumns];
      join_block(x + offset_at(first, g_.kept_sizes, g_.kept_strides), count, values);
      write_(args.buffers[1], first, values, count, scale_);
    }
  }

 private:
  static constexpr int64_t kMostInner = 16;

  void join_block(const X* x, int64_t count, double* values) const {
    const int64_t inner = g_.inner, length = count * inner;
    alignas(64) double joined[kColumns * kMostInner];
    alignas(64) float held[kColumns * kMostInner];
    std::fill_n(joined, length, Op::kStart);
    for (const int64_t row : rows_) {
      const float* floats = floats_of(x + row, length, held);
#pragma GCC ivdep
      for (int64_t i = 0; i < length; ++i) {
        joined[i] = Op::join(joined[i], static_cast<double>(floats[i]));
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      values[i] = joined[i * inner];
      for (int64_t k = 1; k < inner; ++k) values[i] = Op::join(values[i], joined[i * inner + k]);
    }
  }

  Groups g_;
  double scale_;
  WriteFn write_;
  int64_t width_, blocks_, items_, ns_, parts_;
  std::vector<int64_t> rows_;  // offsets of the rows of a window
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
