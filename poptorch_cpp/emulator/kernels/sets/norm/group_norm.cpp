// Group normalisation: a row is a group of channels of a sample, which is contiguous in memory. The
// parameters' gradients are summed by sample, and over samples in order.
#include "emulator/kernels/base/row_kernel.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

struct Sizes {
  int64_t batch, channels, groups, pixels;
  explicit Sizes(const KernelRequest& request)
      : batch(request.inputs[0]->shape[0]),
        channels(request.inputs[0]->shape[1]),
        groups(request.attr<int64_t>("groups")),
        pixels(request.inputs[0]->elements() / std::max<int64_t>(batch * channels, 1)) {}
  int64_t rows() const { return batch * groups; }
  int64_t group() const { return channels / groups; }  // channels of one
  int64_t width() const { return group() * pixels; }
  int64_t first_channel(int64_t row) const { return row % groups * group(); }
};

// Inputs are x, weight and bias; outputs are y, mean and inv_std.
struct GroupNorm {
  static constexpr StoredBuffers kStored = {1, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    if (request.inputs[0]->elements() == 0) return nullptr;
    const Sizes s(request);
    const double eps = request.attr<double>("eps");
    return make_row_kernel(
        request, s.rows(), s.width(),
        [s, eps](const KernelArgs& args, int64_t row) { normalise<X, Y>(args, row, s, eps); });
  }

  template <typename X, typename Y>
  static void normalise(const KernelArgs& args, int64_t row, const Sizes& s, double eps) {
    const int64_t n = s.width();
    const X* x = input_of<X>(args, 0) + row * n;
    const float *weight = input_of<float>(args, 1), *bias = input_of<float>(args, 2);
    Y* y = buffer_of<Y>(args, 3) + row * n;
    const auto count = static_cast<float>(n);
    const float mean = sum_row(n, [](float v) { return v; }, x) / count;
    const float square = sum_row(n, [mean](float v) { return (v - mean) * (v - mean); }, x);
    const auto inv_std = static_cast<float>(1 / std::sqrt(square / count + eps));
    if (args.buffers[4]) buffer_of<float>(args, 4)[row] = mean;
    if (args.buffers[5]) buffer_of<float>(args, 5)[row] = inv_std;
    for (int64_t c = 0; c < s.group(); ++c, x += s.pixels, y += s.pixels) {
      const int64_t channel = s.first_channel(row) + c;
      const float scale = weight ? weight[channel] : 1.0f, shift = bias ? bias[channel] : 0.0f;
      map_row(s.pixels, y, [=](float v) { return (v - mean) * inv_std * scale + shift; }, x);
    }
  }
};

// Inputs are x, weight, mean, inv_std and dy; outputs are dx, dweight and dbias.
template <typename X, typename Y>
class GroupNormGradient final : public BoundKernel {
 public:
  explicit GroupNormGradient(const KernelRequest& request)
      : s_(request), parts_(parts_for(2 * s_.rows() * s_.width(), s_.rows())) {}
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? static_cast<int>(parts_) : 1; }
  int64_t workspace_bytes() const override { return 8 * s_.batch * s_.channels; }
  int64_t estimated_ns() const override { return 2 * s_.rows() * s_.width(); }
  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 1) return join(args);
    const Range rows = part_of(s_.rows(), parts_, task);
    for (int64_t row = rows.begin; row < rows.end; ++row) gradient(args, row);
  }

 private:
  // Returns the sums over a channel of a sample: of dy · normal, then of dy.
  float* sums(const KernelArgs& args, int which) const {
    return reinterpret_cast<float*>(args.workspace) + which * s_.batch * s_.channels;
  }

  void gradient(const KernelArgs& args, int64_t row) const {
    const int64_t n = s_.width(), pixels = s_.pixels, first = s_.first_channel(row);
    const X *x = input_of<X>(args, 0) + row * n, *dy = input_of<X>(args, 4) + row * n;
    const float* weight = input_of<float>(args, 1);
    const float mean = input_of<float>(args, 2)[row], inv_std = input_of<float>(args, 3)[row];
    float sum = 0, product = 0;
    for (int64_t c = 0; c < s_.group(); ++c) {
      const X *xs = x + c * pixels, *dys = dy + c * pixels;
      const float plain = sum_row(pixels, [](float g) { return g; }, dys);
      const float normal =
          sum_row(pixels, [=](float g, float v) { return g * ((v - mean) * inv_std); }, dys, xs);
      sums(args, 0)[row * s_.group() + c] = normal;
      sums(args, 1)[row * s_.group() + c] = plain;
      const float scale = weight ? weight[first + c] : 1.0f;
      sum += scale * plain, product += scale * normal;
    }
    sum /= static_cast<float>(n), product /= static_cast<float>(n);
    Y* dx = buffer_of<Y>(args, 5) + row * n;
    for (int64_t c = 0; c < s_.group(); ++c) {
      const float scale = weight ? weight[first + c] : 1.0f;
      map_row(
          pixels, dx + c * pixels,
          [=](float g, float v) {
            return inv_std * (scale * g - sum - (v - mean) * inv_std * product);
          },
          dy + c * pixels, x + c * pixels);
    }
  }
  void join(const KernelArgs& args) const {
    for (int which = 0; which < 2; ++which) {
      float* out = buffer_of<float>(args, 6 + which);
      for (int64_t c = 0; out && c < s_.channels; ++c) {
        double total = 0;
        for (int64_t b = 0; b < s_.batch; ++b) total += sums(args, which)[b * s_.channels + c];
        out[c] = static_cast<float>(total);
      }
    }
  }

  Sizes s_;
  int64_t parts_;
};

struct GroupNormGrad {
  static constexpr StoredBuffers kStored = {1 | 1 << 4, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    if (request.inputs[0]->elements() == 0) return nullptr;
    return std::make_unique<GroupNormGradient<X, Y>>(request);
  }
};

}  // namespace

void add_group_norm_kernels(KernelTable& table) {
  table.add({.op = "group_norm",
             .bind = bind_stored<GroupNorm>,
             .takes_epilogue = true,
             .reads_halves = true});
  table.add({.op = "group_norm_grad", .bind = bind_stored<GroupNormGrad>, .reads_halves = true});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
