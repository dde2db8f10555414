// Loops over operands and results that are each held as floats or as halves: MicroArgs::held.
#pragma once

#include <cstring>
#include <utility>

#include "emulator/kernels/base/tile_map.hpp"
#include "emulator/kernels/sets/half_elements.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

inline Widest load_held(Element held, const void* x, int64_t i) {
  if (held == Element::kFloat) return load<Widest>(static_cast<const float*>(x) + i);
  const auto* halves = static_cast<const uint16_t*>(x) + i;
  return held == Element::kHalf ? load_half<Widest>(halves) : load_bfloat<Widest>(halves);
}
inline void store_held(Element held, void* y, int64_t i, Widest v) {
  if (held == Element::kFloat) return store(static_cast<float*>(y) + i, v);
  auto* halves = static_cast<uint16_t*>(y) + i;
  held == Element::kHalf ? store_half(halves, v) : store_bfloat(halves, v);
}

// How a loop finds each operand's form: in its arguments, or known when it is compiled.
struct AnyHeld {
  const HeldAs& held;
  Element source(int k) const { return held.sources[k]; }
  Element result() const { return held.result; }
};
template <Element element>
struct AllHeld {
  static constexpr Element source(int) { return element; }
  static constexpr Element result() { return element; }
};

// Maps whole vectors.
template <typename R, typename Held, typename F, int... k>
[[gnu::noinline, gnu::noclone]] void map_vectors(const Held& held, const F& f, const void* const* src, void* dst,
                                   int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    float in[sizeof...(k)][kLanes];
    (store(in[k], load_held(held.source(k), src[k], i)), ...);
    R out[kLanes];
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) out[lane] = static_cast<R>(f(in[k][lane]...));
    if constexpr (std::is_same_v<R, float>) {
      store_held(held.result(), dst, i, load<Widest>(out));
    } else {
      std::memcpy(static_cast<R*>(dst) + i, out, sizeof out);
    }
  }
}

template <typename R, typename Held, typename F, int... k>
void map_elements(const Held& held, const F& f, const MicroArgs& a, int64_t n,
                  std::integer_sequence<int, k...>) {
  const int64_t whole = n / kLanes * kLanes;
  map_vectors<R, Held, F, k...>(held, f, a.src, a.dst[0], whole);
  if (whole == n) return;
  // The rest runs the same instructions.
  float operands[sizeof...(k)][kLanes] = {}, made[kLanes];
  const auto rest = static_cast<size_t>(n - whole);
  const void* src[] = {operands[k]...};
  auto copy = [&](int operand) {
    const auto bytes = static_cast<size_t>(element_bytes(held.source(operand)));
    std::memcpy(operands[operand], a.in<std::byte>(operand) + whole * bytes, rest * bytes);
  };
  (copy(k), ...);
  map_vectors<R, Held, F, k...>(held, f, src, made, kLanes);
  const size_t bytes = std::is_same_v<R, float> ? element_bytes(held.result()) : sizeof(R);
  std::memcpy(a.out<std::byte>() + whole * bytes, made, rest * bytes);
}

// `f` takes the elements of the first `operands` sources as floats. Results other than floats are
// held as R.
template <int operands, typename R, typename F>
void map_held(const MicroArgs& a, int64_t n, const F& f) {
  const HeldAs& held = *a.held;
  constexpr auto kOperands = std::make_integer_sequence<int, operands>();
  Element all = std::is_same_v<R, float> ? held.result : held.sources[0];
  for (int k = 0; k < operands; ++k) {
    if (held.sources[k] != all) all = Element::kFloat;
  }
  if (all == Element::kHalf) return map_elements<R>(AllHeld<Element::kHalf>{}, f, a, n, kOperands);
  if (all == Element::kBfloat) return map_elements<R>(AllHeld<Element::kBfloat>{}, f, a, n, kOperands);
  map_elements<R>(AnyHeld{held}, f, a, n, kOperands);
}

template <int operands, typename R, typename F>
void map_held_of(const MicroArgs& a, int64_t n) {
  map_held<operands, R>(a, n, F());
}

// The functor takes one operand and three immediates.
template <typename F>
void map_held_imm(const MicroArgs& a, int64_t n) {
  const float p = a.imm(0), q = a.imm(1), r = a.imm(2);
  map_held<1, float>(a, n, [=](float x) { return F()(x, p, q, r); });
}

// The row of a functor of floats, one or two.
template <typename R = float, typename F>
MicroRow row_of_one(const char* name, F) {
  constexpr auto kResult = std::is_same_v<R, float> ? RegisterClass::kF32 : RegisterClass::kI32;
  return {.op = name,
          .source = RegisterClass::kF32,
          .result = kResult,
          .fn = map1<float, R, F>,
          .held_fn = map_held_of<1, R, F>};
}
template <typename R = float, typename F>
MicroRow row_of_two(const char* name, F) {
  constexpr auto kResult = std::is_same_v<R, float> ? RegisterClass::kF32 : RegisterClass::kI32;
  return {.op = name,
          .source = RegisterClass::kF32,
          .result = kResult,
          .fn = map2<float, R, F>,
          .held_fn = map_held_of<2, R, F>};
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
