// Loops over a tile for stateless functors. Results may alias operands exactly, so the loops are
// marked free of carried dependencies instead of using restrict. A call that is not inlined would
// keep a loop scalar, whatever the size of its functor.
#pragma once

#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/base/wrapping.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

template <typename T, typename R, typename F>
[[gnu::flatten]] void map1(const MicroArgs& a, int64_t n) {
  const T* x = a.in<T>(0);
  R* y = a.out<R>();
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<R>(F()(x[i]));
}

template <typename T, typename R, typename F>
[[gnu::flatten]] void map2(const MicroArgs& a, int64_t n) {
  const T *x = a.in<T>(0), *z = a.in<T>(1);
  R* y = a.out<R>();
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<R>(F()(x[i], z[i]));
}

// The functor takes one operand and one, two or three immediates.
template <typename F>
[[gnu::flatten]] void map1_imm(const MicroArgs& a, int64_t n) {
  const float* x = a.in<float>(0);
  float* y = a.out<float>();
  const float p = a.imm(0), q = a.imm(1), r = a.imm(2);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = F()(x[i], p, q, r);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
