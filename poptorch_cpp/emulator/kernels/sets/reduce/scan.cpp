// Sums, products and recurrences along an axis. Neighbouring lines advance together, so that every
// access is to neighbouring elements; the order of a line's operations does not depend on that.
#include <algorithm>

#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/reduce/search.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

enum class Scanned { kSum, kProduct, kRecurrence };

constexpr int64_t kScanLines = 64;  // at once

// Operands are x or, for y = a * y + b, a and b; then the result.
template <typename T, Scanned how>
class LineScan final : public BoundKernel {
 public:
  LineScan(const KernelRequest& request, bool reverse)
      : lines_(request.inputs[0]->shape, request.attr<int64_t>("axis"),
               request.attr<int64_t>("axis")),
        reverse_(reverse),
        blocks_(divide_up(lines_.inner, kScanLines)),
        ns_(lines_.count() * lines_.size),
        parts_(parts_for(ns_, lines_.outer * blocks_)) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range range = part_of(lines_.outer * blocks_, parts_, task);
    if (lines_.inner == 1) return scan_rows(args, range);
    for (int64_t item = range.begin; item < range.end; ++item) {
      const int64_t first = item % blocks_ * kScanLines;
      scan(args, item / blocks_ * lines_.size * lines_.inner + first,
           std::min(kScanLines, lines_.inner - first));
    }
  }

 private:
  using Sum = std::conditional_t<std::is_same_v<T, float>, double, uint32_t>;

  static constexpr auto kFirst = static_cast<Sum>(how == Scanned::kProduct ? 1 : 0);

  struct Operands {
    const T *x, *b;
    T* y;
  };
  static Operands operands(const KernelArgs& args, int64_t at) {
    const bool two = how == Scanned::kRecurrence;
    const T* x = input_of<T>(args, 0) + at;
    return {x, two ? input_of<T>(args, 1) + at : x, buffer_of<T>(args, two ? 2 : 1) + at};
  }

  static Sum next(Sum value, T x, T b) {
    const auto taken = static_cast<Sum>(x);
    if constexpr (how == Scanned::kSum) return value + taken;
    if constexpr (how == Scanned::kProduct) return value * taken;
    return taken * value + static_cast<Sum>(b);
  }

  // Scans dense lines, several at once: each step of a line waits for the one before it.
  void scan_rows(const KernelArgs& args, const Range& rows) const {
    constexpr int64_t kRows = 4;
    int64_t row = rows.begin;
    for (; row + kRows <= rows.end; row += kRows) scan_together<kRows>(args, row);
    for (; row < rows.end; ++row) scan_together<1>(args, row);
  }

  template <int64_t rows>
  void scan_together(const KernelArgs& args, int64_t row) const {
    const Operands at = operands(args, row * lines_.size);
    Sum values[rows];
    std::fill_n(values, rows, kFirst);
    for (int64_t n = 0; n < lines_.size; ++n) {
      const int64_t place = reverse_ ? lines_.size - 1 - n : n;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t i = r * lines_.size + place;
        values[r] = next(values[r], at.x[i], at.b[i]);
        at.y[i] = static_cast<T>(values[r]);
      }
    }
  }

  void scan(const KernelArgs& args, int64_t at, int64_t count) const {
    const auto [x, b, y] = operands(args, at);
    const int64_t last = (lines_.size - 1) * lines_.inner;
    const int64_t begin = reverse_ ? last : 0, step = reverse_ ? -lines_.inner : lines_.inner;
    Sum values[kScanLines];
    std::fill_n(values, count, kFirst);
    for (int64_t n = 0, row = begin; n < lines_.size; ++n, row += step) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) {
        values[i] = next(values[i], x[row + i], b[row + i]);
        y[row + i] = static_cast<T>(values[i]);
      }
    }
  }

  Lines lines_;
  bool reverse_;
  int64_t blocks_, ns_, parts_;
};

template <typename T>
struct Scan {
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request, bool sums) {
    if (sums) return std::make_unique<LineScan<T, Scanned::kSum>>(request, false);
    return std::make_unique<LineScan<T, Scanned::kProduct>>(request, false);
  }
};

std::unique_ptr<BoundKernel> bind_recurrence(const KernelRequest& request) {
  if (request.inputs[0]->dtype != ir::DType::kF32) return nullptr;
  const bool reverse = request.attr<bool>("reverse");
  return std::make_unique<LineScan<float, Scanned::kRecurrence>>(request, reverse);
}

}  // namespace

void add_scan_kernels(KernelTable& table) {
  table.add({.op = "cumsum", .bind = bind_floats<by_type<Scan, true>>});
  table.add({.op = "cumprod", .bind = bind_floats<by_type<Scan, false>>});
  table.add({.op = "linear_recurrence", .bind = bind_floats<bind_recurrence>});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
