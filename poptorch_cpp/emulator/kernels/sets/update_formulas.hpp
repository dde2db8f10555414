// Update formulas, each written once for a float and for a vector. Over memory, the compiler
// vectorises the float form; a product in registers uses the vector form. Formulas that keep
// moments report whether they may flush denormals. `W` is how the updated tensor is stored; the
// other tensors among the first kTensors sources are floats. Each formula returns the updated
// tensor's new elements, which the caller stores, and stores the moments.
#pragma once

#include <cmath>

#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/sets/half_elements.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

inline float sign_of(const MicroArgs& a) { return a.immediates[0] != 0 ? -1.0f : 1.0f; }

template <typename W>
struct Sgd {
  using Tensor = W;
  using Held = typename W::Stored;
  static constexpr int kGradient = 1, kTensors = 2, kResults = 1;
  const Held* w;
  Held* w_out;
  float rate, decay, sign;
  explicit Sgd(const MicroArgs& a)
      : w(a.in<Held>(0)),
        w_out(a.out<Held>()),
        rate(static_cast<float>(-a.number(2))),
        decay(static_cast<float>(a.number(3))),
        sign(sign_of(a)) {}
  static constexpr bool flushes_denormals() { return false; }
  template <typename V>
  V fresh(V g, int64_t i) const {
    const V old = W::template load_all<V>(w + i), slope = sign * g + decay * old;
    return old + rate * slope;
  }
};

// Computes torch.lerp, which is exact at both ends.
template <typename V>
V lerp(V from, V to, float weight) {
  return weight < 0.5f ? from + weight * (to - from) : to - (to - from) * (1.0f - weight);
}

// Returns base ** exponent, cached: a step needs the same few values repeatedly, tile by tile.
inline double power_of(double base, double exponent) {
  struct Entry {
    double base = 1, exponent = 0, power = 1;
  };
  constexpr size_t kEntries = 4;
  thread_local Entry known[kEntries];
  thread_local size_t oldest = 0;
  for (const Entry& e : known) {
    if (e.base == base && e.exponent == exponent) return e.power;
  }
  known[oldest] = {base, exponent, std::pow(base, exponent)};
  const double power = known[oldest].power;
  oldest = (oldest + 1) % kEntries;
  return power;
}

// The factors by which a step of Adam or LAMB divides the moments.
struct Corrections {
  double first = 1, second = 1;
  Corrections(double beta1, double beta2, double step, bool corrected) {
    if (!corrected) return;
    first = 1 - power_of(beta1, step);
    second = 1 - power_of(beta2, step);
  }
};

template <typename W, bool decoupled>
struct Adam {
  using Tensor = W;
  using Held = typename W::Stored;
  static constexpr int kGradient = 3, kTensors = 4, kResults = 3;
  const Held* w;
  const float *m, *v;
  Held* w_out;
  float *m_out, *v_out;
  float fresh1, keep2, fresh2, eps, unroot, rate, decay, sign;

  explicit Adam(const MicroArgs& a)
      : w(a.in<Held>(0)),
        m(a.in<float>(1)),
        v(a.in<float>(2)),
        w_out(a.out<Held>(0)),
        m_out(a.out<float>(1)),
        v_out(a.out<float>(2)) {
    const double step = a.number(4), lr = a.number(5), beta1 = a.number(6), beta2 = a.number(7);
    const Corrections corrections(beta1, beta2, step, a.immediates[1] != 0);
    fresh1 = static_cast<float>(1 - beta1), keep2 = static_cast<float>(beta2);
    fresh2 = static_cast<float>(1 - beta2), eps = static_cast<float>(a.number(8));
    unroot = static_cast<float>(1 / std::sqrt(corrections.second));
    rate = static_cast<float>(-lr / corrections.first);
    decay = static_cast<float>(decoupled ? 1 - lr * a.number(9) : a.number(9));
    sign = sign_of(a);
  }
  // √v of a denormal v is below 1.1e-19, which is negligible beside eps.
  bool flushes_denormals() const { return eps >= 1e-12f; }
  template <typename V>
  V fresh(V g, int64_t i) const {
    const V old = W::template load_all<V>(w + i), m_old = load<V>(m + i), v_old = load<V>(v + i);
    const V weight = decoupled ? old * decay : old;
    const V slope = decoupled ? sign * g : sign * g + decay * old;
    const V first = lerp(m_old, slope, fresh1);
    const V second = v_old * keep2 + fresh2 * slope * slope;
    store(m_out + i, first);
    store(v_out + i, second);
    return weight + rate * first / (root(second) * unroot + eps);
  }
};

template <typename W>
struct Accumulate {
  using Tensor = W;
  using Held = typename W::Stored;
  static constexpr int kGradient = 1, kTensors = 2, kResults = 1;
  const Held* w;
  Held* w_out;
  float scale;
  explicit Accumulate(const MicroArgs& a)
      : w(a.in<Held>(0)), w_out(a.out<Held>()), scale(a.imm(0)) {}
  static constexpr bool flushes_denormals() { return false; }
  template <typename V>
  V fresh(V from, int64_t i) const {
    return W::template load_all<V>(w + i) + scale * from;
  }
};

// Updates the elements from i on.
template <typename Update, typename V>
[[gnu::always_inline]] inline void update_at(const Update& update, V g, int64_t i) {
  Update::Tensor::store_all(update.w_out + i, update.fresh(g, i));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
