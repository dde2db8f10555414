// Kernels of convolutions: one walk over the taps serves the result and both gradients.
#include "reference/kernels.hpp"
#include "reference/windows.hpp"

namespace poptorch::reference {
namespace {

// Shapes of a convolution: x [n, c, ...], w [out, c / groups, ...], y [n, out, ...].
struct Convolution {
  Shape x, w, y;
  int64_t groups;
  Windows windows;

  Convolution(const Args& args, Shape x_shape, Shape w_shape, Shape y_shape)
      : x(std::move(x_shape)),
        w(std::move(w_shape)),
        y(std::move(y_shape)),
        groups(args.integer("groups")),
        windows(x, y, Ints(w.begin() + 2, w.end()), args.list("strides"), args.list("padding"),
                args.list("dilation")) {}

  // Calls visit(x index, w index, y index) for every product of the convolution.
  template <typename Visit>
  void for_each(Visit visit) const {
    const int64_t inputs = x[1] / groups, outputs = w[0] / groups;
    const int64_t in = windows.in_size(), out = windows.out_size(), taps = windows.taps();
    for (int64_t n = 0; n < x[0]; ++n) {
      for (int64_t o = 0; o < w[0]; ++o) {
        const int64_t first = o / outputs * inputs;
        for (int64_t i = 0; i < inputs; ++i) {
          const int64_t base_x = (n * x[1] + first + i) * in, base_y = (n * w[0] + o) * out;
          const int64_t base_w = (o * inputs + i) * taps;
          windows.for_each([&](int64_t place, int64_t tap, int64_t element) {
            visit(base_x + element, base_w + tap, base_y + place);
          });
        }
      }
    }
  }
};

Doubles channel_bias(const Args& args, const Shape& y) {
  Doubles out(static_cast<size_t>(ir::element_count(y)), 0.0);
  if (!args.has(2)) return out;
  const Doubles bias = args.in(2);
  const int64_t inner = ir::element_count(y) / std::max<int64_t>(1, y[0] * y[1]);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = bias[(i / static_cast<size_t>(inner)) % bias.size()];
  }
  return out;
}

void conv(const KernelCall& call) {
  const Args args(call);
  const Convolution c(args, args.shape(0), args.shape(1), args.result().shape);
  const Doubles x = args.in(0), w = args.in(1);
  Doubles y = channel_bias(args, c.y);
  c.for_each([&](int64_t i, int64_t j, int64_t k) { y[k] += x[i] * w[j]; });
  args.out(0, y);
}

// Computes conv_grad_input and conv_transpose: operand 0 takes the place of y.
void backwards(const KernelCall& call, bool with_bias) {
  const Args args(call);
  const Convolution c(args, args.result().shape, args.shape(1), args.shape(0));
  const Doubles y = args.in(0), w = args.in(1);
  Doubles x(static_cast<size_t>(args.result().elements()), 0.0);
  if (with_bias) x = channel_bias(args, c.x);
  c.for_each([&](int64_t i, int64_t j, int64_t k) { x[i] += y[k] * w[j]; });
  args.out(0, x);
}

void conv_grad_weight(const KernelCall& call) {
  const Args args(call);
  const Convolution c(args, args.shape(0), args.result().shape, args.shape(1));
  const Doubles x = args.in(0), y = args.in(1);
  Doubles w(static_cast<size_t>(args.result().elements()), 0.0);
  c.for_each([&](int64_t i, int64_t j, int64_t k) { w[j] += x[i] * y[k]; });
  args.out(0, w);
}

}  // namespace

void add_conv_kernels(Table& table) {
  table["conv"] = {conv};
  table["conv_grad_input"] = {[](const KernelCall& call) { backwards(call, false); }};
  table["conv_transpose"] = {[](const KernelCall& call) { backwards(call, true); }};
  table["conv_grad_weight"] = {conv_grad_weight};
}

}  // namespace poptorch::reference
