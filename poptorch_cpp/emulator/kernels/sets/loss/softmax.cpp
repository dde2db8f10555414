// Softmax, its logarithm and their gradients along an axis, a row at a time in cache.
#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/base/row_kernel.hpp"
#include "emulator/kernels/sets/loss/class_loss.hpp"
#include "emulator/kernels/sets/loss/softmax_columns.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/lanes.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

void softmax(const float* x, float* y, int64_t n) {
  const float top = lanes::max(x, n);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = vec::exp(x[i] - top);
  const float total = lanes::sum(n, [y](int64_t i) { return y[i]; });
  const float scale = 1.0f / total;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

void softmax_grad(const float* y, const float* dy, float* dx, int64_t n) {
  const float total = lanes::sum(n, [=](int64_t i) { return y[i] * dy[i]; });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - total);
}

void log_softmax_grad(const float* y, const float* dy, float* dx, int64_t n) {
  const float total = lanes::sum(n, [=](int64_t i) { return dy[i]; });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - vec::exp(y[i]) * total;
}

using Unary = void (*)(const float*, float*, int64_t);
using Binary = void (*)(const float*, const float*, float*, int64_t);

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

// Returns a kernel over blocks of columns where they have enough of them.
std::unique_ptr<BoundKernel> bind_columns(const KernelRequest& request, const Axis& axis,
                                          columns::Function function) {
  constexpr int64_t kLeastColumns = 16;
  const Lines lines(request.outputs[0].shape, axis.index, axis.index);
  if (lines.inner < kLeastColumns || request.epilogue) return nullptr;
  return std::make_unique<columns::Kernel>(lines, static_cast<int>(request.inputs.size()), 1,
                                           function);
}

template <Unary f, columns::Function of_columns>
std::unique_ptr<BoundKernel> bind_unary(const KernelRequest& request) {
  const Axis axis(request);
  const int64_t n = axis.size;
  if (axis.empty) return nullptr;
  if (!axis.last) {
    if (auto made = bind_columns(request, axis, of_columns)) return made;
    return make_along_axis(request, axis.index, axis.index, 2, 0,
                           [n](const Line& line) { f(line.at<float>(0), line.at<float>(1), n); });
  }
  return make_row_kernel(
      request, request.outputs[0].elements() / n, n * 2, [n](const KernelArgs& args, int64_t row) {
        f(input_of<float>(args, 0) + row * n, buffer_of<float>(args, 1) + row * n, n);
      });
}

template <Binary f, columns::Function of_columns>
std::unique_ptr<BoundKernel> bind_binary(const KernelRequest& request) {
  const Axis axis(request);
  const int64_t n = axis.size;
  if (axis.empty) return nullptr;
  if (!axis.last) {
    if (auto made = bind_columns(request, axis, of_columns)) return made;
    return make_along_axis(request, axis.index, axis.index, 2, 0, [n](const Line& line) {
      f(line.at<float>(0), line.at<float>(1), line.at<float>(2), n);
    });
  }
  return make_row_kernel(request, request.outputs[0].elements() / n, n * 2,
                         [n](const KernelArgs& args, int64_t row) {
                           f(input_of<float>(args, 0) + row * n, input_of<float>(args, 1) + row * n,
                             buffer_of<float>(args, 2) + row * n, n);
                         });
}

}  // namespace

void log_softmax_row(const float* x, float* y, int64_t n) {
  const float top = lanes::max(x, n);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = vec::exp(x[i] - top);
  const float total = lanes::sum(n, [y](int64_t i) { return y[i]; });
  const float shift = vec::log(total);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) - shift;
}

void add_softmax_kernels(KernelTable& table) {
  table.add({.op = "softmax",
             .bind = bind_floats<bind_unary<softmax, columns::softmax>>,
             .takes_epilogue = true});
  table.add({.op = "log_softmax",
             .bind = bind_floats<bind_unary<log_softmax_row, columns::log_softmax>>,
             .takes_epilogue = true});
  table.add({.op = "softmax_grad",
             .bind = bind_floats<bind_binary<softmax_grad, columns::softmax_grad>>,
             .takes_epilogue = true});
  table.add({.op = "log_softmax_grad",
             .bind = bind_floats<bind_binary<log_softmax_grad, columns::log_softmax_grad>>,
             .takes_epilogue = true});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
