// Adam's step on a vector, with its roundings. Both the pass over memory and the product in
// registers run it.
#pragma once

#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

struct Plain {
  template <typename V>
  static V round(V x) {
    return x;
  }
};
struct Rounded {
  template <typename V>
  static V round(V x) {
    return round_to_half(x);
  }
};

// Selects how m is held: as floats, or as halves where no other step reads it.
struct Wide {
  using Element = float;
  template <typename V>
  static V get(const float* x) {
    return load<V>(x);
  }
  template <typename V>
  static void put(float* y, V v) {
    store(y, v);
  }
};
struct Stored {
  using Element = uint16_t;
  template <typename V>
  static V get(const uint16_t* x) {
    return load_half<V>(x);
  }
  template <typename V>
  static void put(uint16_t* y, V v) {
    store_half(y, v);
  }
};

// Computes (keep1, m, fresh1, g, keep2, v, fresh2, eps, w) → m, v and w + scale · m / (√v + eps).
template <typename Rounding, typename RatioRounding, typename Moment>
struct AdamVector {
  using M = typename Moment::Element;
  static constexpr int kGradient = 3;  // source

  explicit AdamVector(const MicroArgs& a)
      : keep1(*a.in<float>(0)),
        fresh1(*a.in<float>(2)),
        keep2(*a.in<float>(4)),
        fresh2(*a.in<float>(6)),
        eps(*a.in<float>(7)),
        scale(a.imm(0)) {}

  // Reads everything before it writes: streams may be a multiple of a page apart.
  template <typename V>
  __attribute__((always_inline)) void operator()(V g, const M* m_in, const float* v_in,
                                                 const float* w_in, M* m_out, float* v_out,
                                                 float* w_out) const {
    const V m_old = Moment::template get<V>(m_in), v_old = load<V>(v_in), w_old = load<V>(w_in);
    const V sample = Rounding::round(g);
    const V m = Rounding::round(keep1 * m_old + fresh1 * sample);
    const V v = keep2 * v_old + fresh2 * g * g;
    const V ratio = RatioRounding::round(m / (root(v) + eps));
    Moment::put(m_out, m);
    store(v_out, v);
    store(w_out, w_old + scale * ratio);
  }

 private:
  float keep1, fresh1, keep2, fresh2, eps, scale;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
