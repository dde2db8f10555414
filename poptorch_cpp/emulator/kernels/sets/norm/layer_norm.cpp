// Layer normalisation, a row at a time in cache. The parameters' gradients are summed by parts of
// rows, which join in order.
#include "emulator/kernels/base/row_kernel.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/lanes.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

int64_t row_width(const KernelRequest& request) {
  const ir::Shape& x = request.inputs[0]->shape;
  return ir::element_count(ir::Shape(x.end() - request.attr<int64_t>("axes_count"), x.end()));
}

// Inputs are x, weight and bias; outputs are y, mean and inv_std.
std::unique_ptr<BoundKernel> bind_layer_norm(const KernelRequest& request) {
  const int64_t n = row_width(request), elements = request.inputs[0]->elements();
  if (elements == 0) return nullptr;
  const double eps = request.attr<double>("eps");
  return make_row_kernel(request, elements / n, n, [n, eps](const KernelArgs& args, int64_t row) {
    const float *x = input_of<float>(args, 0) + row * n, *weight = input_of<float>(args, 1),
                *bias = input_of<float>(args, 2);
    float* y = buffer_of<float>(args, 3) + row * n;
    const auto count = static_cast<float>(n);
    const float mean = lanes::sum(n, [x](int64_t i) { return x[i]; }) / count;
    const float square = lanes::sum(n, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    const auto inv_std = static_cast<float>(1 / std::sqrt(square / count + eps));
    if (args.buffers[4]) buffer_of<float>(args, 4)[row] = mean;
    if (args.buffers[5]) buffer_of<float>(args, 5)[row] = inv_std;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float normal = (x[i] - mean) * inv_std;
      y[i] = normal * (weight ? weight[i] : 1.0f) + (bias ? bias[i] : 0.0f);
    }
  });
}

// Inputs are x, weight, mean, inv_std and dy; outputs are dx, dweight and dbias.
class LayerNormGradient final : public BoundKernel {
 public:
  explicit LayerNormGradient(const KernelRequest& request)
      : n_(row_width(request)),
        rows_(request.inputs[0]->elements() / n_),
        parts_(std::clamp<int64_t>(rows_ / 32, 1, 32)),
        epilogue_(request) {}
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? static_cast<int>(parts_) : 1; }
  int64_t workspace_bytes() const override { return 8 * parts_ * n_; }
  int64_t scratch_bytes() const override { return 4 * n_ + 64 + epilogue_.scratch_bytes(); }
  int64_t estimated_ns() const override { return rows_ * n_; }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* sums = reinterpret_cast<float*>(args.workspace);
    if (phase == 1) return join(args, sums);
    float *dweight = sums + 2 * task * n_, *dbias = dweight + n_;
    std::fill_n(dweight, 2 * n_, 0.0f);
    const Range rows = part_of(rows_, parts_, task);
    const int64_t together = std::max<int64_t>(1, Epilogue::kTogether / n_);
    for (int64_t first = rows.begin; first < rows.end; first += together) {
      const int64_t end = std::min(first + together, rows.end);
      for (int64_t row = first; row < end; ++row) gradient(args, row, dweight, dbias);
      if (!epilogue_) continue;
      epilogue_.run(args, {.first = first * n_, .cols = (end - first) * n_},
                    args.scratch + round_up(4 * n_, 64));
    }
  }

 private:
  void gradient(const KernelArgs& args, int64_t row, float* dweight, float* dbias) const {
    const float *x = input_of<float>(args, 0) + row * n_, *weight = input_of<float>(args, 1);
    const float* dy = input_of<float>(args, 4) + row * n_;
    const float mean = input_of<float>(args, 2)[row], inv_std = input_of<float>(args, 3)[row];
    float* dx = buffer_of<float>(args, 5) + row * n_;
    auto* scaled = reinterpret_cast<float*>(args.scratch);
#pragma GCC ivdep
    for (int64_t i = 0; i < n_; ++i) scaled[i] = weight ? dy[i] * weight[i] : dy[i];
#pragma GCC ivdep
    for (int64_t i = 0; i < n_; ++i) {
      dbias[i] += dy[i];
      dweight[i] += dy[i] * ((x[i] - mean) * inv_std);
    }
    const auto count = static_cast<float>(n_);
    const float sum = lanes::sum(n_, [=](int64_t i) { return scaled[i]; }) / count;
    const float product =
        lanes::sum(n_, [=](int64_t i) { return scaled[i] * ((x[i] - mean) * inv_std); }) / count;
#pragma GCC ivdep
    for (int64_t i = 0; i < n_; ++i) {
      dx[i] = inv_std * (scaled[i] - sum - (x[i] - mean) * inv_std * product);
    }
  }
  void join(const KernelArgs& args, const float* sums) const {
    for (int which = 0; which < 2; ++which) {
      if (!args.buffers[6 + which]) continue;
      float* out = buffer_of<float>(args, 6 + which);
      for (int64_t i = 0; i < n_; ++i) {
        double total = 0;
        for (int64_t p = 0; p < parts_; ++p) total += sums[(2 * p + which) * n_ + i];
        out[i] = static_cast<float>(total);
      }
    }
  }

  int64_t n_, rows_, parts_;
  Epilogue epilogue_;
};

std::unique_ptr<BoundKernel> bind_layer_norm_gradient(const KernelRequest& request) {
  if (request.inputs[0]->elements() == 0) return nullptr;
  return std::make_unique<LayerNormGradient>(request);
}

}  // namespace

void add_layer_norm_kernels(KernelTable& table) {
  table.add({.op = "layer_norm", .bind = bind_floats<bind_layer_norm>, .takes_epilogue = true});
  table.add({.op = "layer_norm_grad",
             .bind = bind_floats<bind_layer_norm_gradient>,
             .takes_epilogue = true});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
