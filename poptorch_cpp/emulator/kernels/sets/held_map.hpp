// Loops over operands and results that are each held as words or as in memory: MicroArgs::held.
#pragma once

#include <cstring>
#include <utility>

#include "emulator/kernels/base/tile_map.hpp"
#include "emulator/kernels/sets/half_elements.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Loops over lanes are not unrolled: the compiler would split vectors into scalars.

// Loads a vector of words, as floats with the same bits.
inline Widest load_held(Held held, const void* x, int64_t i) {
  if (held == Held::kWord) return load<Widest>(static_cast<const float*>(x) + i);
  if (held == Held::kOne) return spread<Widest>(*static_cast<const float*>(x));
  if (held == Held::kBool) return load_bytes(static_cast<const uint8_t*>(x) + i);
  const auto* halves = static_cast<const uint16_t*>(x) + i;
  return held == Held::kHalf ? load_half<Widest>(halves) : load_bfloat<Widest>(halves);
}
inline void store_held(Held held, void* y, int64_t i, const float* made) {
  const auto v = load<Widest>(made);
  if (held == Held::kWord) return store(static_cast<float*>(y) + i, v);
  auto* halves = static_cast<uint16_t*>(y) + i;
  held == Held::kHalf ? store_half(halves, v) : store_bfloat(halves, v);
}
inline void store_held(Held held, void* y, int64_t i, const int32_t* made) {
  if (held == Held::kWord) {
    std::memcpy(static_cast<int32_t*>(y) + i, made, kLanes * sizeof(int32_t));
    return;
  }
  auto* bools = static_cast<uint8_t*>(y) + i;
#pragma GCC unroll 1
  for (int lane = 0; lane < kLanes; ++lane) bools[lane] = static_cast<uint8_t>(made[lane]);
}

// How a loop finds each operand's form: in its arguments, or known when it is compiled.
struct AnyHeld {
  const HeldAs& held;
  Held source(int k) const { return held.sources[k]; }
  Held result() const { return held.result; }
};
// All in one form but for the sources `ones`, a bit for each.
template <Held held, int ones = 0>
struct AllHeld {
  static constexpr Held source(int k) { return ones >> k & 1 ? Held::kOne : held; }
  static constexpr Held result() { return held; }
};

// Maps whole vectors.
template <typename T, typename R, typename Form, typename F, int... k>
[[gnu::noinline, gnu::flatten]] void map_vectors(const Form& form, const F& f,
                                                 const void* const* src, void* dst, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    T in[sizeof...(k)][kLanes];
    (store(reinterpret_cast<float*>(in[k]), load_held(form.source(k), src[k], i)), ...);
    R out[kLanes];
#pragma GCC unroll 1
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) out[lane] = static_cast<R>(f(in[k][lane]...));
    store_held(form.result(), dst, i, out);
  }
}

template <typename T, typename R, typename Form, typename F, int... k>
void map_elements(const Form& form, const F& f, const MicroArgs& a, int64_t n,
                  std::integer_sequence<int, k...>) {
  const int64_t whole = n / kLanes * kLanes;
  map_vectors<T, R, Form, F, k...>(form, f, a.src, a.dst[0], whole);
  if (whole == n) return;
  // The rest runs the same instructions.
  float operands[sizeof...(k)][kLanes] = {}, made[kLanes];
  const auto rest = static_cast<size_t>(n - whole);
  const void* src[] = {operands[k]...};
  auto copy = [&](int operand) {
    const auto bytes = static_cast<size_t>(bytes_of(form.source(operand)));
    if (bytes == 0) src[operand] = a.src[operand];
    std::memcpy(operands[operand], a.in<std::byte>(operand) + whole * bytes, rest * bytes);
  };
  (copy(k), ...);
  map_vectors<T, R, Form, F, k...>(form, f, src, made, kLanes);
  const auto bytes = static_cast<size_t>(bytes_of(form.result()));
  std::memcpy(a.out<std::byte>() + whole * bytes, made, rest * bytes);
}

// Maps floats that are all in one form, apart from the last operands or the first. Returns whether
// they are.
template <Held held, int operands, typename F>
bool map_same(const MicroArgs& a, int64_t n, const F& f, int ones) {
  constexpr auto kOperands = std::make_integer_sequence<int, operands>();
  constexpr int kLast = (1 << operands) - 2;
  if (ones == 0) {
    map_elements<float, float>(AllHeld<held>{}, f, a, n, kOperands);
  } else if (operands > 1 && ones == kLast) {
    map_elements<float, float>(AllHeld<held, kLast>{}, f, a, n, kOperands);
  } else if (operands == 2 && ones == 1) {
    map_elements<float, float>(AllHeld<held, operands == 2>{}, f, a, n, kOperands);
  } else {
    return false;
  }
  return true;
}

// `f` takes the elements of the first `operands` sources as T, float or int32_t, and makes an R.
template <int operands, typename T, typename R, typename F>
void map_held(const MicroArgs& a, int64_t n, const F& f) {
  const HeldAs& held = *a.held;
  if constexpr (std::is_same_v<R, float>) {
    int ones = 0;
    bool same = true;
    for (int k = 0; k < operands; ++k) {
      const bool one = held.sources[k] == Held::kOne;
      ones |= one << k;
      same &= one || held.sources[k] == held.result;
    }
    bool done = false;
    if (same && held.result == Held::kWord && ones != 0) {
      done = map_same<Held::kWord, operands>(a, n, f, ones);
    } else if (same && held.result == Held::kHalf) {
      done = map_same<Held::kHalf, operands>(a, n, f, ones);
    } else if (same && held.result == Held::kBfloat) {
      done = map_same<Held::kBfloat, operands>(a, n, f, ones);
    }
    if (done) return;
  }
  map_elements<T, R>(AnyHeld{held}, f, a, n, std::make_integer_sequence<int, operands>());
}

template <int operands, typename T, typename R, typename F>
void map_held_of(const MicroArgs& a, int64_t n) {
  map_held<operands, T, R>(a, n, F());
}

// The same where bools alone are mapped as bytes.
template <int operands, typename F>
void map_bools(const MicroArgs& a, int64_t n) {
  bool bools = a.held->result == Held::kBool;
  for (int k = 0; k < operands; ++k) bools &= a.held->sources[k] == Held::kBool;
  if (!bools) return map_held_of<operands, int32_t, int32_t, F>(a, n);
  if constexpr (operands == 1) {
    map1<uint8_t, uint8_t, F>(a, n);
  } else {
    map2<uint8_t, uint8_t, F>(a, n);
  }
}

// The functor takes one operand and three immediates.
template <typename F>
void map_held_imm(const MicroArgs& a, int64_t n) {
  const float p = a.imm(0), q = a.imm(1), r = a.imm(2);
  map_held<1, float, float>(a, n, [=](float x) { return F()(x, p, q, r); });
}

// The row of a functor of one or two floats or 32-bit integers.
template <typename T>
constexpr RegisterClass kClassOf =
    std::is_same_v<T, float> ? RegisterClass::kF32 : RegisterClass::kI32;
template <typename T = float, typename R = T, typename F>
MicroRow row_of_one(const char* name, F) {
  return {.op = name,
          .source = kClassOf<T>,
          .result = kClassOf<R>,
          .fn = map1<T, R, F>,
          .held_fn = map_held_of<1, T, R, F>};
}
template <typename T = float, typename R = T, typename F>
MicroRow row_of_two(const char* name, F) {
  return {.op = name,
          .source = kClassOf<T>,
          .result = kClassOf<R>,
          .fn = map2<T, R, F>,
          .held_fn = map_held_of<2, T, R, F>};
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
