// Kernels of convolutions: one walk over the taps serves the result and both gradients.
#include "reference/half_sum.hpp"
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

// The same results with half partials: each sum by itself, in the order (tap, channel) or, of the
// weights, (image, place). A term that lies in the padding is zero.
class HalfConvolution {
 public:
  explicit HalfConvolution(const Convolution& c)
      : c_(c),
        taps_(c.windows.taps()),
        inputs_(c.x[1] / c.groups),
        outputs_(c.w[0] / c.groups),
        elements_(static_cast<size_t>(out() * taps_), -1),
        places_(static_cast<size_t>(in() * taps_), -1) {
    c.windows.for_each([&](int64_t place, int64_t tap, int64_t element) {
      elements_[place * taps_ + tap] = element;
      places_[element * taps_ + tap] = place;
    });
  }

  void result(const Doubles& x, const Doubles& w, Doubles& y) const {
    for_each(c_.w[0], out(), [&](int64_t n, int64_t o, int64_t place) {
      HalfSum sum;
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const int64_t element = elements_[place * taps_ + tap];
        if (element < 0) sum.skip(inputs_);
        for (int64_t i = 0; element >= 0 && i < inputs_; ++i) {
          sum.add(x[x_at(n, o / outputs_ * inputs_ + i, element)], w[w_at(o, i, tap)]);
        }
      }
      y[y_at(n, o, place)] += sum.value();
    });
  }

  void of_input(const Doubles& y, const Doubles& w, Doubles& x) const {
    for_each(c_.x[1], in(), [&](int64_t n, int64_t i, int64_t element) {
      HalfSum sum;
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const int64_t place = places_[element * taps_ + tap];
        if (place < 0) sum.skip(outputs_);
        for (int64_t k = 0; place >= 0 && k < outputs_; ++k) {
          const int64_t o = i / inputs_ * outputs_ + k;
          sum.add(y[y_at(n, o, place)], w[w_at(o, i % inputs_, tap)]);
        }
      }
      x[x_at(n, i, element)] += sum.value();
    });
  }

  void of_weight(const Doubles& x, const Doubles& y, Doubles& w) const {
    for (int64_t j = 0; j < c_.w[0] * inputs_ * taps_; ++j) {
      const int64_t tap = j % taps_, i = j / taps_ % inputs_, o = j / taps_ / inputs_;
      HalfSum sum;
      for_each(1, out(), [&](int64_t n, int64_t, int64_t place) {
        const int64_t element = elements_[place * taps_ + tap];
        if (element < 0) return sum.skip(1);
        sum.add(x[x_at(n, o / outputs_ * inputs_ + i, element)], y[y_at(n, o, place)]);
      });
      w[j] = sum.value();
    }
  }

 private:
  int64_t in() const { return c_.windows.in_size(); }
  int64_t out() const { return c_.windows.out_size(); }
  int64_t x_at(int64_t n, int64_t i, int64_t element) const {
    return (n * c_.x[1] + i) * in() + element;
  }
  int64_t y_at(int64_t n, int64_t o, int64_t place) const {
    return (n * c_.w[0] + o) * out() + place;
  }
  int64_t w_at(int64_t o, int64_t i, int64_t tap) const { return (o * inputs_ + i) * taps_ + tap; }

  template <typename Visit>
  void for_each(int64_t channels, int64_t places, Visit visit) const {
    for (int64_t n = 0; n < c_.x[0]; ++n) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        for (int64_t place = 0; place < places; ++place) visit(n, channel, place);
      }
    }
  }

  const Convolution& c_;
  int64_t taps_, inputs_, outputs_;
  Integers elements_, places_;
};

bool has_half_partials(const Args& args) { return args.text("partials") == "half"; }

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
  if (has_half_partials(args)) {
    HalfConvolution(c).result(x, w, y);
    return args.out(0, y);
  }
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
  if (has_half_partials(args)) {
    HalfConvolution(c).of_input(y, w, x);
    return args.out(0, x);
  }
  c.for_each([&](int64_t i, int64_t j, int64_t k) { x[i] += y[k] * w[j]; });
  args.out(0, x);
}

void conv_grad_weight(const KernelCall& call) {
  const Args args(call);
  const Convolution c(args, args.shape(0), args.result().shape, args.shape(1));
  const Doubles x = args.in(0), y = args.in(1);
  Doubles w(static_cast<size_t>(args.result().elements()), 0.0);
  if (has_half_partials(args)) {
    HalfConvolution(c).of_weight(x, y, w);
    return args.out(0, w);
  }
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
