// Rows of functors of floats or 32-bit integers.
#pragma once

#include "emulator/kernels/sets/random_map.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// The functor takes one operand and three immediates.
template <typename F>
auto with_immediates(const MicroArgs& a) {
  return [p = a.imm(0), q = a.imm(1), r = a.imm(2)](float x) { return F()(x, p, q, r); };
}
template <typename F>
void map_held_imm(const MicroArgs& a, int64_t n) {
  map_held<1, float, float>(a, n, with_immediates<F>(a));
}
template <typename F>
void map_random_imm(const MicroArgs& a, int64_t n) {
  map_random<1, map_held_imm<F>>(a, n, with_immediates<F>(a));
}

// Maps whole vectors of floats; the tail runs the same instructions.
template <typename F>
[[gnu::flatten]] void map_by_vectors(const MicroArgs& a, int64_t n) {
  const float* x = a.in<float>(0);
  float* y = a.out<float>();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, F()(load<Widest>(x + i)));
  if (i == n) return;
  const Mask rest = first_lanes(n - i);
  store(y + i, rest, F()(load(x + i, rest)));
}
template <int operands, typename F>
void map_by_pairs(const MicroArgs& a, int64_t n) {
  map_elements<float, float, AllHeld<Held::kWord>>(F(), a, n,
                                                   std::make_integer_sequence<int, operands>());
}
template <typename T, typename R, typename F>
constexpr MicroFn map_one() {
  if constexpr (kTakesVectors<F>) {
    return map_by_vectors<F>;
  } else if constexpr (kTakesPairs<F>) {
    return map_by_pairs<1, F>;
  } else {
    return map1<T, R, F>;
  }
}
template <typename T, typename R, typename F>
constexpr MicroFn map_two() {
  if constexpr (kTakesPairs<F>) {
    return map_by_pairs<2, F>;
  } else {
    return map2<T, R, F>;
  }
}

template <typename T>
constexpr RegisterClass kClassOf =
    std::is_same_v<T, float> ? RegisterClass::kF32 : RegisterClass::kI32;

// The row of a functor that `fn` maps.
template <int operands, typename T, typename R, typename F>
MicroRow row_of(const char* name, MicroFn fn) {
  MicroRow row{.op = name,
               .source = kClassOf<T>,
               .result = kClassOf<R>,
               .fn = fn,
               .held_fn = map_held_of<operands, T, R, F>};
  constexpr bool kFloats = std::is_same_v<T, float> && std::is_same_v<R, float>;
  if constexpr (kFloats && !kIsExact<F>) row.random_fn = map_random_of<operands, F>;
  return row;
}
template <typename T = float, typename R = T, typename F>
MicroRow row_of_one(const char* name, F) {
  return row_of<1, T, R, F>(name, map_one<T, R, F>());
}
// The row of a formula that vector_functions.hpp has for floats, and may have for vectors.
template <typename F>
MicroRow row_of_formula(const char* name, F f) {
  if constexpr (vec::kHasVectorFormulas) {
    return row_of_one(name, OfVectors<F>());
  } else {
    return row_of_one(name, f);
  }
}
template <typename T = float, typename R = T, typename F>
MicroRow row_of_two(const char* name, F) {
  return row_of<2, T, R, F>(name, map_two<T, R, F>());
}
// The rows of a formula that vector_math.hpp has for floats and for pairs of vectors.
template <typename F>
using OfAny = std::conditional_t<vec::kHasPairs, OfPairs<F>, F>;
template <typename F>
MicroRow row_of_pairs(const char* name, F) {
  return row_of_one(name, OfAny<F>());
}
template <typename F>
MicroRow row_of_two_pairs(const char* name, F) {
  return row_of_two(name, OfAny<F>());
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
