// Layer normalisation, a row at a time in cache. The parameters' gradients are summed by parts of
// rows, which join in order.
#include "emulator/kernels/base/row_kernel.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/short_rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

int64_t row_width(const KernelRequest& request) {
  const ir::Shape& x = request.inputs[0]->shape;
  return ir::element_count(ir::Shape(x.end() - request.attr<int64_t>("axes_count"), x.end()));
}

// Inputs are x, weight and bias; outputs are y, mean and inv_std.
struct LayerNorm {
  static constexpr StoredBuffers kStored = {1, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    const int64_t n = row_width(request), elements = request.inputs[0]->elements();
    if (elements == 0) return nullptr;
    const double eps = request.attr<double>("eps");
    if (n <= kShortRow) return bind_short_rows<X, Y>(request, n, eps);
    return make_row_kernel(request, elements / n, n, [n, eps](const KernelArgs& args, int64_t row) {
      normalise<X, Y>(args, row, n, eps);
    });
  }

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind_short_rows(const KernelRequest& request, int64_t n,
                                                      double eps) {
    const int64_t x_bytes = n * kRowsAtOnce * int64_t{sizeof(X)};
    auto compute = [=](const KernelArgs& args, int64_t begin, int64_t end) {
      X* x = reinterpret_cast<X*>(args.scratch);
      Y* y = reinterpret_cast<Y*>(args.scratch + x_bytes);
      for_blocks_of_rows(begin, end, [&](int64_t first, int64_t count) {
        const int64_t width = rows_to_columns(input_of<X>(args, 0) + first * n, n, count, n, x);
        normalise_columns(args, first, count, width, n, eps, x, y);
        columns_to_rows(y, buffer_of<Y>(args, 3) + first * n, n, count, n);
      });
    };
    return make_rows_kernel(request, request.inputs[0]->elements() / n, n, compute, nullptr,
                            x_bytes + n * kRowsAtOnce * int64_t{sizeof(Y)});
  }

  template <typename X, typename Y>
  static void normalise_columns(const KernelArgs& args, int64_t first, int64_t count, int64_t width,
                                int64_t n, double eps, const X* x, Y* y) {
    const auto size = static_cast<float>(n);
    float means[kRowsAtOnce] = {}, squares[kRowsAtOnce] = {}, inv_stds[kRowsAtOnce];
    auto add = [](float sum, float v) { return sum + v; };
    auto add_square = [](float sum, float v, float mean) { return sum + (v - mean) * (v - mean); };
    for (int64_t i = 0; i < n; ++i) map_row(width, means, add, means, x + i * kRowsAtOnce);
    for (float& mean : means) mean /= size;
    for (int64_t i = 0; i < n; ++i) {
      map_row(width, squares, add_square, squares, x + i * kRowsAtOnce, means);
    }
    for (int64_t r = 0; r < kRowsAtOnce; ++r) {
      inv_stds[r] = static_cast<float>(1 / std::sqrt(squares[r] / size + eps));
    }
    if (args.buffers[4]) std::copy_n(means, count, buffer_of<float>(args, 4) + first);
    if (args.buffers[5]) std::copy_n(inv_stds, count, buffer_of<float>(args, 5) + first);
    const float *weight = input_of<float>(args, 1), *bias = input_of<float>(args, 2);
    for (int64_t i = 0; i < n; ++i) {
      const float w = weight ? weight[i] : 1.0f, b = bias ? bias[i] : 0.0f;
      auto normal = [w, b](float v, float mean, float inv_std) {
        return (v - mean) * inv_std * w + b;
      };
      map_row(width, y + i * kRowsAtOnce, normal, x + i * kRowsAtOnce, means, inv_stds);
    }
  }

  template <typename X, typename Y>
  static void normalise(const KernelArgs& args, int64_t row, int64_t n, double eps) {
    const X* x = input_of<X>(args, 0) + row * n;
    Y* y = buffer_of<Y>(args, 3) + row * n;
    const auto count = static_cast<float>(n);
    const float mean = sum_row(n, [](float v) { return v; }, x) / count;
    const float square = sum_row(n, [mean](float v) { return (v - mean) * (v - mean); }, x);
    const auto inv_std = static_cast<float>(1 / std::sqrt(square / count + eps));
    if (args.buffers[4]) buffer_of<float>(args, 4)[row] = mean;
    if (args.buffers[5]) buffer_of<float>(args, 5)[row] = inv_std;
    with_weights(args, 1, 1.0f, [&](auto weight) {
      with_weights(args, 2, 0.0f, [&](auto bias) {
        auto normal = [mean, inv_std](float v, float w, float b) {
          return (v - mean) * inv_std * w + b;
        };
        map_row(n, y, normal, x, weight, bias);
      });
    });
  }
};

// Inputs are x, weight, mean, inv_std and dy; outputs are dx, dweight and dbias.
template <typename X, typename Y>
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
    const X *x = input_of<X>(args, 0) + row * n_, *dy = input_of<X>(args, 4) + row * n_;
    const float mean = input_of<float>(args, 2)[row], inv_std = input_of<float>(args, 3)[row];
    Y* dx = buffer_of<Y>(args, 5) + row * n_;
    auto* scaled = reinterpret_cast<float*>(args.scratch);
    with_weights(args, 1, 1.0f, [&](auto weight) {
      map_row(n_, scaled, [](float g, float w) { return g * w; }, dy, weight);
    });
    map_row(n_, dbias, [](float sum, float g) { return sum + g; }, dbias, dy);
    map_row(
        n_, dweight,
        [mean, inv_std](float sum, float g, float v) { return sum + g * ((v - mean) * inv_std); },
        dweight, dy, x);
    const auto count = static_cast<float>(n_);
    const float sum = sum_row(n_, [](float g) { return g; }, scaled) / count;
    const float product =
        sum_row(
            n_, [mean, inv_std](float g, float v) { return g * ((v - mean) * inv_std); }, scaled,
            x) /
        count;
    map_row(
        n_, dx,
        [=](float g, float v) { return inv_std * (g - sum - (v - mean) * inv_std * product); },
        scaled, x);
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

struct LayerNormGrad {
  static constexpr StoredBuffers kStored = {1 | 1 << 4, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    if (request.inputs[0]->elements() == 0) return nullptr;
    return std::make_unique<LayerNormGradient<X, Y>>(request);
  }
};

}  // namespace

void add_layer_norm_kernels(KernelTable& table) {
  table.add({.op = "layer_norm",
             .bind = bind_stored<LayerNorm>,
             .takes_epilogue = true,
             .reads_halves = true});
  table.add({.op = "layer_norm_grad",
             .bind = bind_stored<LayerNormGrad>,
             .takes_epilogue = true,
             .reads_halves = true});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
