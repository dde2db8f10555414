// Loops over operands and results that are each held as words or as in memory: MicroArgs::held.
#pragma once

#include <cstring>
#include <utility>

#include "emulator/kernels/base/tile_map.hpp"
#include "emulator/kernels/sets/half_elements.hpp"
#include "emulator/kernels/sets/held_blocks.hpp"
#include "emulator/kernels/simd/vector_functions.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Loops over lanes are not unrolled: the compiler would split vectors into scalars.

// The form of each operand of a loop: one form but for the sources `ones`, a bit for each. Even and
// odd bfloats are in separate vectors: this takes fewer instructions than converting neighbours.
template <Held held, int ones = 0>
struct AllHeld {
  static constexpr int kVectors = held == Held::kBfloat ? 2 : 1;  // in each pass
  static constexpr Held source(int k) { return ones >> k & 1 ? Held::kOne : held; }
  static constexpr Held result() { return held; }
};

// Loads vectors of neighbours, or the even and the odd ones of 2 * kLanes bfloats. `one` has the
// single element of a source in every lane.
template <Held held, int vectors>
void load_vectors(const void* x, int64_t i, Widest one, Widest* v) {
  if constexpr (held == Held::kOne) {
    v[0] = v[vectors - 1] = one;
  } else if constexpr (held == Held::kBfloat) {
    load_bfloats(static_cast<const uint16_t*>(x) + i, v);
  } else if constexpr (held == Held::kHalf) {
    for (int j = 0; j < vectors; ++j) {
      v[j] = load_half<Widest>(static_cast<const uint16_t*>(x) + i + j * kLanes);
    }
  } else {
    for (int j = 0; j < vectors; ++j) {
      v[j] = load<Widest>(static_cast<const float*>(x) + i + j * kLanes);
    }
  }
}

// The sources of a loop. As far as the compiler knows, a store could change the caller's pointers
// and single elements.
template <typename Form, int... k>
struct Sources {
  const void* from[sizeof...(k)];
  Widest one[sizeof...(k)];

  [[gnu::always_inline]] explicit Sources(const void* const* src) {
    ((from[k] = src[k], one[k] = Form::source(k) == Held::kOne
                                     ? spread<Widest>(*static_cast<const float*>(src[k]))
                                     : Widest{}),
     ...);
  }
  template <int vectors>
  [[gnu::always_inline]] void load_at(int64_t i, Widest (*v)[vectors]) const {
    (load_vectors<Form::source(k), vectors>(from[k], i, one[k], v[k]), ...);
  }
};

// A functor of values of a half type that makes values of this type: they need no rounding.
template <typename F>
struct Exact : F {
  static constexpr bool kIsExact = true;
};
template <typename F>
constexpr bool kIsExact = requires { F::kIsExact; };

// A functor that takes floats, and vectors where the set has vector formulas.
template <typename F>
struct OfVectors : F {
  static constexpr bool kTakesVectors = true;
};
template <typename F>
constexpr bool kTakesVectors = requires { F::kTakesVectors; };

// The same for pairs of vectors.
template <typename F>
struct OfPairs : F {
  static constexpr bool kTakesPairs = true;
};
template <typename F>
constexpr bool kTakesPairs = requires { F::kTakesPairs; };

// The vectors of a pass over operands in a form.
template <typename Form, typename F>
constexpr int kVectorsOf = kTakesPairs<F> ? 2 : Form::kVectors;

// Applies a functor to as many vectors of each operand.
template <typename T, typename R, int vectors, typename F, int... k>
[[gnu::always_inline]] inline void apply(const F& f, const Widest (*v)[vectors], Widest* made,
                                         std::integer_sequence<int, k...>) {
  if constexpr (kTakesVectors<F>) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) made[j] = f(v[k][j]...);
  } else if constexpr (kTakesPairs<F>) {
    const vec::VectorPair pair = f(vec::VectorPair{v[k][0], v[k][1]}...);
    made[0] = pair.a, made[1] = pair.b;
  } else {
    constexpr int kStep = vectors * kLanes;
    T in[sizeof...(k)][kStep];
    (std::memcpy(in[k], v[k], sizeof(in[k])), ...);
    R out[kStep];
#pragma GCC unroll 1
#pragma GCC ivdep
    for (int lane = 0; lane < kStep; ++lane) out[lane] = static_cast<R>(f(in[k][lane]...));
    std::memcpy(made, out, sizeof(out));
  }
}

// Maps whole vectors.
template <typename T, typename R, typename Form, typename F, int... k>
[[gnu::noinline, gnu::flatten]] void map_vectors(const F& f, const void* const* src, void* dst,
                                                 int64_t n) {
  constexpr int kVectors = kVectorsOf<Form, F>, kStep = kVectors * kLanes;
  const Sources<Form, k...> sources(src);
  for (int64_t i = 0; i < n; i += kStep) {
    Widest v[sizeof...(k)][kVectors], made[kVectors];
    sources.load_at(i, v);
    apply<T, R, kVectors>(f, v, made, std::integer_sequence<int, k...>());
    if constexpr (Form::result() == Held::kBfloat) {
      auto* y = static_cast<uint16_t*>(dst) + i;
      constexpr bool kOne = ((Form::source(k) == Held::kOne) || ...);
      kIsExact<F> && !kOne ? store_exact_bfloats(y, made[0], made[1])
                           : store_bfloats(y, made[0], made[1]);
    } else if constexpr (Form::result() == Held::kHalf) {
      for (int j = 0; j < kVectors; ++j) {
        store_half(static_cast<uint16_t*>(dst) + i + j * kLanes, made[j]);
      }
    } else {
      for (int j = 0; j < kVectors; ++j) {
        store(static_cast<float*>(dst) + i + j * kLanes, made[j]);
      }
    }
  }
}

template <typename T, typename R, typename Form, typename F, int... k>
void map_elements(const F& f, const MicroArgs& a, int64_t n, std::integer_sequence<int, k...>) {
  constexpr int kStep = kVectorsOf<Form, F> * kLanes;
  const int64_t whole = n / kStep * kStep;
  map_vectors<T, R, Form, F, k...>(f, a.src, a.dst[0], whole);
  if (whole == n) return;
  // The rest runs the same instructions.
  float operands[sizeof...(k)][kStep] = {}, made[kStep];
  const auto rest = static_cast<size_t>(n - whole);
  const void* src[] = {operands[k]...};
  auto copy = [&](int operand) {
    const auto bytes = static_cast<size_t>(bytes_of(Form::source(operand)));
    if (bytes == 0) src[operand] = a.src[operand];
    std::memcpy(operands[operand], a.in<std::byte>(operand) + whole * bytes, rest * bytes);
  };
  (copy(k), ...);
  map_vectors<T, R, Form, F, k...>(f, src, made, kStep);
  const auto bytes = static_cast<size_t>(bytes_of(Form::result()));
  std::memcpy(a.out<std::byte>() + whole * bytes, made, rest * bytes);
}

// Maps elements in any forms: as words, block by block.
template <typename T, typename R, typename F, int... k>
void map_blocks(const F& f, const MicroArgs& a, int64_t n, std::integer_sequence<int, k...>) {
  constexpr int64_t kBlock = 256;
  const HeldAs& held = *a.held;
  constexpr int64_t kStep = kVectorsOf<AllHeld<Held::kWord>, F> * kLanes;
  alignas(64) float in[sizeof...(k)][kBlock], made[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = n - i < kBlock ? n - i : kBlock;
    const int64_t whole = (count + kStep - 1) / kStep * kStep;
    auto words = [&](int operand) -> const void* {
      const Held form = held.sources[operand];
      if (form == Held::kWord && count == kBlock) return a.in<float>(operand) + i;
      if (form == Held::kOne && i > 0) return in[operand];
      to_words(form, a.src[operand], i, count, in[operand]);
      std::fill(in[operand] + count, in[operand] + whole, 0.0f);
      return in[operand];
    };
    const void* src[] = {words(k)...};
    const bool direct = held.result == Held::kWord && count == kBlock;
    float* y = direct ? a.out<float>() + i : made;
    map_vectors<T, R, AllHeld<Held::kWord>, F, k...>(f, src, y, whole);
    if (!direct) from_words(made, held.result, a.dst[0], i, count);
  }
}

// Maps floats that are all in one form, apart from the last operands or the first. Returns whether
// they are.
template <Held held, int operands, typename F>
bool map_same(const MicroArgs& a, int64_t n, const F& f, int ones) {
  constexpr auto kOperands = std::make_integer_sequence<int, operands>();
  constexpr int kLast = (1 << operands) - 2;
  if (ones == 0) {
    map_elements<float, float, AllHeld<held>>(f, a, n, kOperands);
  } else if (operands > 1 && ones == kLast) {
    map_elements<float, float, AllHeld<held, kLast>>(f, a, n, kOperands);
  } else if (operands == 2 && ones == 1) {
    map_elements<float, float, AllHeld<held, operands == 2>>(f, a, n, kOperands);
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
    if (same && held.result == Held::kWord) {
      done = map_same<Held::kWord, operands>(a, n, f, ones);
    } else if (same && held.result == Held::kHalf) {
      done = map_same<Held::kHalf, operands>(a, n, f, ones);
    } else if (same && held.result == Held::kBfloat) {
      done = map_same<Held::kBfloat, operands>(a, n, f, ones);
    }
    if (done) return;
  }
  map_blocks<T, R>(f, a, n, std::make_integer_sequence<int, operands>());
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

}  // namespace poptorch::emulator::inline POPTORCH_SET
