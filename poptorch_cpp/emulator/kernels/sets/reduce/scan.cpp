// Sums, products and recurrences along an axis. Neighbouring lines advance together, so that every
// access is to neighbouring elements; the order of a line's operations does not depend on that.
#include <algorithm>

#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/reduce/search.hpp"
#include "emulator/kernels/sets/short_rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

enum class Scanned { kSum, kProduct, kRecurrence };

// Lines that advance at once. The more there are, the longer are the runs of memory that a step
// reads and writes: the processor fetches ahead within a page only.
constexpr int64_t kMostLines = 1024, kFewestLines = 64;
constexpr int64_t kLargeRows = 1 << 20;  // bytes

// Returns the lines to advance at once so that a tensor has about `kBlocks` blocks or more of them.
int64_t lines_at_once(const Lines& lines) {
  constexpr int64_t kBlocks = 8;
  const int64_t wanted = divide_up(lines.count(), kBlocks * kFewestLines) * kFewestLines;
  return std::clamp(wanted, kFewestLines, kMostLines);
}

// Operands are x or, for y = a * y + b, a and b; then the result. They are stored as X and Y, and
// scanned as T.
template <typename X, typename Y, typename T, Scanned how>
class LineScan final : public BoundKernel {
 public:
  LineScan(const KernelRequest& request, bool reverse)
      : lines_(request.inputs[0]->shape, request.attr<int64_t>("axis"),
               request.attr<int64_t>("axis")),
        reverse_(reverse),
        width_(lines_at_once(lines_)),
        blocks_(divide_up(lines_.inner, width_)),
        ns_(lines_.count() * lines_.size),
        unit_(lines_.inner == 1 ? kRowsAtOnce : 1),
        parts_(parts_for(ns_, divide_up(lines_.outer * blocks_, unit_))) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  int64_t elements_at_once() const override {
    const int64_t width = std::min(width_, lines_.inner);
    return !kTwo && width >= kLeastTaken ? width : 0;
  }
  void run(const KernelArgs& args, int, int task) const override {
    const Range range = part_of(lines_.outer * blocks_, parts_, task, unit_);
    if (lines_.inner == 1) return scan_rows(args, range);
    for (int64_t item = range.begin; item < range.end; ++item) {
      const int64_t first = item % blocks_ * width_;
      const int64_t count = std::min(width_, lines_.inner - first);
      Sum values[kMostLines];
      std::fill_n(values, count, kFirst);
      const int64_t at = item / blocks_ * lines_.size * lines_.inner + first;
      // Operand 0 may have no buffer.
      const X* b = kTwo ? input_of<X>(args, 1) + at : nullptr;
      scan([&](int64_t row) { return elements_of<X>(args, at + row, count); },
           {nullptr, b, result_at(args, at)}, lines_.size, lines_.inner, count, values);
    }
  }

 private:
  using Sum = std::conditional_t<std::is_same_v<T, float>, double, uint32_t>;

  static constexpr bool kTwo = how == Scanned::kRecurrence;
  static constexpr auto kFirst = static_cast<Sum>(how == Scanned::kProduct ? 1 : 0);

  struct Operands {
    const X *x, *b;
    Y* y;
  };
  static Operands operands(const KernelArgs& args, int64_t at) {
    const X* x = input_of<X>(args, 0) + at;
    return {x, kTwo ? input_of<X>(args, 1) + at : x, result_at(args, at)};
  }
  static Y* result_at(const KernelArgs& args, int64_t at) {
    return buffer_of<Y>(args, kTwo ? 2 : 1) + at;
  }

  static const T* values_of(const X* x, int64_t n, T* held) {
    if constexpr (std::is_same_v<X, T>) {
      return x;
    } else {
      return floats_of(x, n, held);
    }
  }
  // Returns where results are made: in memory, or in `held`, from where finish() stores them.
  static T* results_of(Y* y, T* held) {
    if constexpr (std::is_same_v<Y, T>) {
      return y;
    } else {
      return held;
    }
  }
  static void finish(Y* y, int64_t n, const T* held) {
    if constexpr (!std::is_same_v<Y, T>) map_row(n, y, [](T v) { return v; }, held);
  }

  static Sum next(Sum value, T x, T b) {
    const auto taken = static_cast<Sum>(x);
    if constexpr (how == Scanned::kSum) return value + taken;
    if constexpr (how == Scanned::kProduct) return value * taken;
    return taken * value + static_cast<Sum>(b);
  }

  // Scans dense lines, several at once: each step of a line waits for the one before it.
  void scan_rows(const KernelArgs& args, const Range& rows) const {
    // Rows of floats that are pages apart evict each other from L1, and the next lines come from
    // beyond L2. To convert halves takes longer than that.
    const int64_t stride = lines_.size * int64_t{sizeof(X)}, bytes = lines_.outer * stride;
    if (std::is_same_v<X, T> && stride % 4096 == 0 && bytes > kLargeRows) {
      for (int64_t row = rows.begin; row < rows.end; ++row) scan_together<1>(args, row);
      return;
    }
    for_blocks_of_rows(rows.begin, rows.end, [&](int64_t row, int64_t count) {
      if (count >= kLanes) return scan_columns(args, row, count);
      constexpr int64_t kRows = 4;
      const int64_t end = row + count;
      for (; row + kRows <= end; row += kRows) scan_together<kRows>(args, row);
      for (; row < end; ++row) scan_together<1>(args, row);
    });
  }

  template <int64_t rows>
  void scan_together(const KernelArgs& args, int64_t row) const {
    const Operands at = operands(args, row * lines_.size);
    Sum values[rows];
    std::fill_n(values, rows, kFirst);
    constexpr int64_t kSome = 64;  // elements of a line
    for (int64_t n = 0; n < lines_.size; n += kSome) {
      const int64_t count = std::min(kSome, lines_.size - n);
      const int64_t first = reverse_ ? lines_.size - n - count : n;
      T held_x[rows][kSome], held_b[rows][kSome], held_y[rows][kSome];
      const T *x[rows], *b[rows];
      T* y[rows];
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t i = r * lines_.size + first;
        x[r] = values_of(at.x + i, count, held_x[r]);
        b[r] = kTwo ? values_of(at.b + i, count, held_b[r]) : x[r];
        y[r] = results_of(at.y + i, held_y[r]);
      }
      for (int64_t k = 0; k < count; ++k) {
        const int64_t place = reverse_ ? count - 1 - k : k;
        for (int64_t r = 0; r < rows; ++r) {
          values[r] = next(values[r], x[r][place], b[r][place]);
          y[r][place] = static_cast<T>(values[r]);
        }
      }
      for (int64_t r = 0; r < rows; ++r) finish(at.y + r * lines_.size + first, count, held_y[r]);
    }
  }

  // Scans a block of rows, transposed.
  void scan_columns(const KernelArgs& args, int64_t row, int64_t count) const {
    constexpr int64_t kSome = 64;  // elements of a line
    const Operands whole = operands(args, row * lines_.size);
    X held_x[kSome * kRowsAtOnce], held_b[kTwo ? kSome * kRowsAtOnce : 1];
    Y made[kSome * kRowsAtOnce];
    Sum values[kRowsAtOnce];
    std::fill_n(values, kRowsAtOnce, kFirst);
    for (int64_t n = 0; n < lines_.size; n += kSome) {
      const int64_t some = std::min(kSome, lines_.size - n);
      const int64_t first = reverse_ ? lines_.size - n - some : n;
      const int64_t width = rows_to_columns(whole.x + first, lines_.size, count, some, held_x);
      if (kTwo) rows_to_columns(whole.b + first, lines_.size, count, some, held_b);
      scan([&](int64_t row) { return held_x + row; }, {held_x, kTwo ? held_b : held_x, made}, some,
           kRowsAtOnce, width, values);
      columns_to_rows(made, whole.y + first, lines_.size, count, some);
    }
  }

  // Scans `size` rows, `stride` apart, of `count` neighbouring elements, and continues from
  // `values`. `row_of(i)` returns the elements of operand 0 from i on.
  template <typename RowOf>
  void scan(RowOf row_of, const Operands& operands, int64_t size, int64_t stride, int64_t count,
            Sum* values) const {
    const int64_t begin = reverse_ ? (size - 1) * stride : 0, step = reverse_ ? -stride : stride;
    for (int64_t n = 0, row = begin; n < size; ++n, row += step) {
      T held_x[kMostLines], held_b[kMostLines], held_y[kMostLines];
      const T* x = values_of(row_of(row), count, held_x);
      const T* b = kTwo ? values_of(operands.b + row, count, held_b) : x;
      T* y = results_of(operands.y + row, held_y);
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) {
        values[i] = next(values[i], x[i], b[i]);
        y[i] = static_cast<T>(values[i]);
      }
      finish(operands.y + row, count, held_y);
    }
  }

  Lines lines_;
  bool reverse_;
  int64_t width_, blocks_, ns_;
  int64_t unit_;  // items of a part are a multiple of these
  int64_t parts_;
};

template <typename T>
struct WholeScan {
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request, bool sums) {
    if (sums) return std::make_unique<LineScan<T, T, T, Scanned::kSum>>(request, false);
    return std::make_unique<LineScan<T, T, T, Scanned::kProduct>>(request, false);
  }
};

template <Scanned how>
struct Scan {
  static constexpr StoredBuffers kStored = {how == Scanned::kRecurrence ? 3 : 1, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    const ir::DType dtype = request.inputs[0]->dtype;
    if (dtype != ir::DType::kF32 && !is_half(dtype)) {
      if constexpr (how == Scanned::kRecurrence) return nullptr;
      return by_type<WholeScan, how == Scanned::kSum>(request);
    }
    const bool reverse = how == Scanned::kRecurrence && request.attr<bool>("reverse");
    return std::make_unique<LineScan<X, Y, float, how>>(request, reverse);
  }
};

}  // namespace

void add_scan_kernels(KernelTable& table) {
  table.add({.op = "cumsum", .bind = bind_stored<Scan<Scanned::kSum>>});
  table.add({.op = "cumprod", .bind = bind_stored<Scan<Scanned::kProduct>>});
  table.add({.op = "linear_recurrence", .bind = bind_stored<Scan<Scanned::kRecurrence>>});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
