// Softmax, its logarithm and their gradients along an axis, a row at a time in cache.
#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/sets/loss/class_loss.hpp"
#include "emulator/kernels/sets/loss/softmax_columns.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/short_rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// Each computes a row of n elements; `scratch` has room for n floats. Rows in memory and gathered
// lines share one copy.
struct SoftmaxRow {
  using Columns = columns::Softmax;
  template <typename X, typename Y>
  [[gnu::noinline]] static void run(const X* const* operands, Y* y, int64_t n, float* scratch) {
    const X* x = operands[0];
    const float top = max_row(n, x);
    float* powers = scratch;
    if constexpr (kIsFloat<Y>) powers = y;
    map_row(n, powers, [top](auto v) { return vec::exp(v - top); }, x);
    const float scale = 1.0f / sum_row(n, [](float v) { return v; }, powers);
    map_row(n, y, [scale](float v) { return v * scale; }, powers);
  }
};

struct LogSoftmaxRow {
  using Columns = columns::LogSoftmax;
  template <typename X, typename Y>
  [[gnu::noinline]] static void run(const X* const* operands, Y* y, int64_t n, float*) {
    log_softmax_row(operands[0], y, n);
  }
};

struct SoftmaxGradRow {
  using Columns = columns::SoftmaxGrad;
  template <typename X, typename Y>
  [[gnu::noinline]] static void run(const X* const* operands, Y* dx, int64_t n, float*) {
    const X *y = operands[0], *dy = operands[1];
    const float total = sum_row(n, [](float p, float g) { return p * g; }, y, dy);
    map_row(n, dx, [total](float p, float g) { return p * (g - total); }, y, dy);
  }
};

struct LogSoftmaxGradRow {
  using Columns = columns::LogSoftmaxGrad;
  template <typename X, typename Y>
  [[gnu::noinline]] static void run(const X* const* operands, Y* dx, int64_t n, float*) {
    const X *y = operands[0], *dy = operands[1];
    const float total = sum_row(n, [](float g) { return g; }, dy);
    map_row(n, dx, [total](auto log, auto g) { return g - vec::exp(log) * total; }, y, dy);
  }
};

// The axis, and its size if the tensor has elements.
struct Axis {
  int64_t index, size;
  bool last, empty;
  explicit Axis(const KernelRequest& request)
      : index(request.attr<int64_t>("axis")),
        size(request.outputs[0].shape[index]),
        last(index == request.outputs[0].rank() - 1),
        empty(request.outputs[0].elements() == 0) {}
};

template <typename Row>
struct AlongRows {
  static constexpr int kOperands = Row::Columns::kOperands;
  static constexpr StoredBuffers kStored = {(1 << kOperands) - 1, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    const Axis axis(request);
    const int64_t n = axis.size;
    if (axis.empty) return nullptr;
    if (!axis.last) return bind_columns<X, Y>(request, axis);
    if (n <= kShortRow) return bind_short_rows<X, Y>(request, n);
    return make_row_kernel(
        request, request.outputs[0].elements() / n, n * 2,
        [n](const KernelArgs& args, int64_t row) {
          const X* operands[kOperands];
          for (int k = 0; k < kOperands; ++k) operands[k] = input_of<X>(args, k) + row * n;
          Row::run(operands, buffer_of<Y>(args, kOperands) + row * n, n,
                   reinterpret_cast<float*>(args.scratch));
        },
        nullptr, kIsFloat<Y> ? 0 : n * 4);
  }

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind_short_rows(const KernelRequest& request, int64_t n) {
    const int64_t block = n * kRowsAtOnce, x_bytes = block * int64_t{sizeof(X)};
    const int64_t y_bytes = block * int64_t{sizeof(Y)};
    auto compute = [=](const KernelArgs& args, int64_t begin, int64_t end) {
      for_blocks_of_rows(begin, end, [&](int64_t first, int64_t count) {
        std::byte* at = args.scratch;
        const X* operands[kOperands];
        int64_t width = 0;
        for (int k = 0; k < kOperands; ++k, at += x_bytes) {
          X* held = reinterpret_cast<X*>(at);
          width = rows_to_columns(input_of<X>(args, k) + first * n, n, count, n, held);
          operands[k] = held;
        }
        Y* made = reinterpret_cast<Y*>(at);
        Row::Columns::run({n, kRowsAtOnce, width}, operands, made,
                          reinterpret_cast<float*>(at + y_bytes));
        columns_to_rows(made, buffer_of<Y>(args, kOperands) + first * n, n, count, n);
      });
    };
    const int64_t rows = request.outputs[0].elements() / n, powers = kIsFloat<Y> ? 0 : block * 4;
    return make_rows_kernel(request, rows, n * 2, compute, nullptr,
                            kOperands * x_bytes + y_bytes + powers);
  }

  // Computes blocks of columns where they have enough of them.
  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind_columns(const KernelRequest& request, const Axis& axis) {
    const Lines lines(request.outputs[0].shape, axis.index, axis.index);
    if (lines.inner >= columns::kLeast && !request.epilogue) {
      return std::make_unique<columns::Kernel<typename Row::Columns, X, Y>>(lines, 1);
    }
    const int64_t n = axis.size;
    const int64_t scratch = kIsFloat<Y> ? 0 : n * 4;
    return make_along_axis(request, axis.index, axis.index, 2, scratch, [n](const Line& line) {
      const X* operands[kOperands];
      for (int k = 0; k < kOperands; ++k) operands[k] = line.at<X>(k);
      Row::run(operands, line.at<Y>(kOperands), n, reinterpret_cast<float*>(line.scratch));
    });
  }
};

template <typename Row>
void add_row(KernelTable& table, const char* op) {
  table.add({.op = op,
             .bind = bind_stored<AlongRows<Row>>,
             .takes_epilogue = true,
             .reads_halves = true});
}

}  // namespace

void add_softmax_kernels(KernelTable& table) {
  add_row<SoftmaxRow>(table, "softmax");
  add_row<LogSoftmaxRow>(table, "log_softmax");
  add_row<SoftmaxGradRow>(table, "softmax_grad");
  add_row<LogSoftmaxGradRow>(table, "log_softmax_grad");
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
