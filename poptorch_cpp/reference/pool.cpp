// Kernels of pools.
#include <cmath>

#include "reference/kernels.hpp"
#include "reference/windows.hpp"

namespace poptorch::reference {
namespace {

// Returns the place of each window's first greatest element, or of its last NaN, which wins. Places
// count through the input channel by channel; -1 where a window is empty.
Integers winners(const Doubles& x, const Windows& w, int64_t channels) {
  const int64_t in = w.in_size(), out = w.out_size();
  Integers best(static_cast<size_t>(channels * out), -1);
  for (int64_t c = 0; c < channels; ++c) {
    w.for_each([&](int64_t place, int64_t, int64_t element) {
      int64_t& winner = best[c * out + place];
      const double value = x[c * in + element];
      if (winner < 0) {
        winner = c * in + element;
        return;
      }
      if (std::isnan(value) || value > x[winner]) winner = c * in + element;
    });
  }
  return best;
}

Windows max_windows(const Args& a, const Shape& x, const Shape& y) {
  return {x, y, a.list("kernel"), a.list("strides"), a.list("padding"), a.list("dilation")};
}

void max_pool(const KernelCall& call) {
  const Args a(call);
  const Windows w = max_windows(a, a.shape(0), a.result().shape);
  const Doubles x = a.in(0);
  const Integers best = winners(x, w, a.shape(0)[0] * a.shape(0)[1]);
  Doubles y(best.size());
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = best[i] < 0 ? -INFINITY : x[best[i]];
  }
  a.out(0, y);
}

void max_pool_grad(const KernelCall& call) {
  const Args a(call);
  const Windows w = max_windows(a, a.shape(0), a.shape(1));
  const Integers best = winners(a.in(0), w, a.shape(0)[0] * a.shape(0)[1]);
  const Doubles dy = a.in(2);
  Doubles dx(static_cast<size_t>(a.type(0).elements()), 0.0);
  for (size_t i = 0; i < dy.size(); ++i) {
    if (best[i] >= 0) dx[best[i]] += dy[i];
  }
  a.out(0, dx);
}

Windows mean_windows(const Args& a, const Shape& x, const Shape& y) {
  return {x,
          y,
          a.list("kernel"),
          a.list("strides"),
          a.list("padding"),
          Ints(a.list("kernel").size(), 1)};
}

// Returns the divisor of each place: `divisor`, or the taps inside the padded input or the input.
Doubles divisors(const Args& a, const Windows& w) {
  const auto divisor = static_cast<double>(a.integer("divisor"));
  Doubles out(static_cast<size_t>(w.out_size()), divisor);
  if (divisor != 0) return out;
  const bool padded = a.flag("count_include_pad");
  if (!padded) w.for_each([&](int64_t place, int64_t, int64_t) { out[place] += 1; });
  for (int64_t place = 0; padded && place < w.out_size(); ++place) {
    int64_t rest = place;
    double taps = 1;
    for (size_t d = 3; d-- > 0;) {
      const int64_t begin = rest % w.out[d] * w.stride[d] - w.padding[d];
      rest /= w.out[d];
      taps *= static_cast<double>(std::min(begin + w.kernel[d], w.in[d] + w.padding[d]) - begin);
    }
    out[place] = taps;
  }
  return out;
}

void avg_pool(const KernelCall& call) {
  const Args a(call);
  const Windows w = mean_windows(a, a.shape(0), a.result().shape);
  const Doubles x = a.in(0), by = divisors(a, w);
  Doubles y(static_cast<size_t>(a.result().elements()), 0.0);
  const int64_t in = w.in_size(), out = w.out_size();
  for (int64_t c = 0; c < a.shape(0)[0] * a.shape(0)[1]; ++c) {
    w.for_each([&](int64_t place, int64_t, int64_t element) {
      y[c * out + place] += x[c * in + element];
    });
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] /= by[i % by.size()];
  a.out(0, y);
}

void avg_pool_grad(const KernelCall& call) {
  const Args a(call);
  const Windows w = mean_windows(a, a.result().shape, a.shape(0));
  const Doubles dy = a.in(0), by = divisors(a, w);
  Doubles dx(static_cast<size_t>(a.result().elements()), 0.0);
  const int64_t in = w.in_size(), out = w.out_size();
  for (int64_t c = 0; c < a.shape(0)[0] * a.shape(0)[1]; ++c) {
    w.for_each([&](int64_t place, int64_t, int64_t element) {
      dx[c * in + element] += dy[c * out + place] / by[place];
    });
  }
  a.out(0, dx);
}

}  // namespace

void add_pool_kernels(Table& table) {
  table["max_pool"] = {max_pool, true};
  table["max_pool_grad"] = {max_pool_grad};
  table["avg_pool"] = {avg_pool};
  table["avg_pool_grad"] = {avg_pool_grad};
}

}  // namespace poptorch::reference
