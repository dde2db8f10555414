// Loops over rows of floats or halves in memory. Halves are converted in registers: a load gives
// floats, and a store rounds once. Formulas take and return single floats; their order of
// operations does not depend on the type.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "emulator/kernels/base/stored.hpp"
#include "emulator/kernels/sets/half_elements.hpp"
#include "emulator/kernels/simd/lanes.hpp"
#include "emulator/kernels/simd/vector_math.hpp"
#include "support/half.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

template <typename T>
constexpr bool kIsFloat = std::is_same_v<std::remove_const_t<T>, float>;

// Converts elements of T.
template <typename T>
constexpr Element kElementOf = kIsFloat<T>                                    ? Element::kFloat
                               : std::is_same_v<std::remove_const_t<T>, Half> ? Element::kHalf
                                                                              : Element::kBfloat;
template <typename T>
using Converts = Elements<kElementOf<T>>;

template <typename T>
auto* stored_at(T* x) {
  using Stored = typename Converts<T>::Stored;
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const Stored, Stored>*>(x);
}

// An operand of a row that is the same number everywhere.
struct Always {
  float number;
  float operator[](int64_t) const { return number; }
  Always operator+(int64_t) const { return *this; }
};

// Loads a vector of an operand: a pointer or Always; or its first `count` lanes.
template <typename T>
[[gnu::always_inline]] inline Widest load_lanes(T* x) {
  return Converts<T>::template load_all<Widest>(stored_at(x));
}
[[gnu::always_inline]] inline Widest load_lanes(Always x) { return spread<Widest>(x.number); }
template <typename T>
Widest load_lanes(T* x, int64_t count) {
  return Converts<T>::load_first(stored_at(x), count);
}
inline Widest load_lanes(Always x, int64_t) { return load_lanes(x); }

template <typename T>
[[gnu::always_inline]] inline void store_lanes(T* y, Widest v) {
  Converts<T>::store_all(stored_at(y), v);
}

template <typename T>
float load_one(const T* x) {
  if constexpr (kIsFloat<T>) {
    return *x;
  } else if constexpr (kElementOf<T> == Element::kHalf) {
    return support::from_half(x->bits);
  } else {
    return support::from_bfloat16(x->bits);
  }
}
template <typename T>
void store_one(T* y, float value) {
  if constexpr (kIsFloat<T>) {
    *y = value;
  } else {
    T held[kLanes];
    store_lanes(held, spread<Widest>(value));
    *y = held[0];
  }
}

// Returns n elements as floats: those in memory, or a copy in `held`.
template <typename T>
const float* floats_of(const T* x, int64_t n, float* held) {
  if constexpr (kIsFloat<T>) {
    return x;
  } else {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(held + i, load_lanes(x + i));
    if (i < n) store(held + i, first_lanes(n - i), load_lanes(x + i, n - i));
    return held;
  }
}

// Applies f to the lanes of vectors.
template <typename F, typename... V>
[[gnu::always_inline]] inline Widest map_lanes(const F& f, V... x) {
  return [&]<int... k>(std::integer_sequence<int, k...>) __attribute__((always_inline)) {
    float in[sizeof...(V)][kLanes], out[kLanes];
    (store(in[k], x), ...);
#pragma GCC unroll 1  // the compiler would split the vectors into scalars
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) out[lane] = f(in[k][lane]...);
    return load<Widest>(out);
  }(std::make_integer_sequence<int, static_cast<int>(sizeof...(V))>());
}

// Whether a formula takes pairs of vectors, as one of `auto` operands does, and the set has them.
template <typename F, typename... P>
constexpr bool takes_pairs() {
  if constexpr (vec::kHasPairs) {
    return std::is_invocable_v<const F&, std::conditional_t<true, vec::VectorPair, P>...>;
  }
  return false;
}
constexpr int64_t kPaired = 2 * kLanes;  // elements of a pair
template <typename P>
[[gnu::always_inline]] inline vec::VectorPair load_pair(P x) {
  return {load_lanes(x), load_lanes(x + kLanes)};
}
template <typename P>
vec::VectorPair load_pair(P x, int64_t count) {
  const int64_t first = std::min<int64_t>(count, kLanes);
  return {load_lanes(x, first), load_lanes(x + first, count - first)};
}
template <typename Y>
[[gnu::always_inline]] inline void store_pair(Y* y, vec::VectorPair v) {
  store_lanes(y, v.a);
  store_lanes(y + kLanes, v.b);
}

template <typename P>
constexpr bool kReadsFloats = std::is_same_v<P, Always> || kIsFloat<std::remove_pointer_t<P>>;

// Computes y[i] = f(x[i]...) for n elements. y may be one of the operands. The formula is a copy:
// as far as the compiler knows, a store of halves could change one in memory.
template <typename Y, typename F, typename... P>
[[gnu::flatten]] void map_row(int64_t n, Y* y, F f, P... x) {
  if constexpr (takes_pairs<F, P...>()) {
    int64_t i = 0;
    for (; i + kPaired <= n; i += kPaired) store_pair(y + i, f(load_pair(x + i)...));
    if (i == n) return;
    Y held[kPaired];
    store_pair(held, f(load_pair(x + i, n - i)...));
    std::memcpy(y + i, held, static_cast<size_t>(n - i) * sizeof(Y));
  } else if constexpr (kIsFloat<Y> && (kReadsFloats<P> && ...)) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]...);
  } else {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_lanes(y + i, map_lanes(f, load_lanes(x + i)...));
    if (i == n) return;
    Y held[kLanes];
    store_lanes(held, map_lanes(f, load_lanes(x + i, n - i)...));
    std::memcpy(y + i, held, static_cast<size_t>(n - i) * sizeof(Y));
  }
}

// Computes lanes::reduce() of term(x[i]...).
template <int count = lanes::kLanes, typename Term, typename Join, typename... P>
[[gnu::flatten]] float reduce_row(int64_t n, float start, Term term, Join join, P... x) {
  if constexpr ((kReadsFloats<P> && ...)) {
    return lanes::reduce<count>(n, start, [=](int64_t i) { return term(x[i]...); }, join);
  } else {
    return [&]<int... k>(std::integer_sequence<int, k...>) __attribute__((always_inline)) {
      float lane[count], in[sizeof...(P)][count];
      for (float& each : lane) each = start;
      int64_t i = 0;
      for (; i + count <= n; i += count) {
        for (int l = 0; l < count; l += kLanes) (store(in[k] + l, load_lanes(x + i + l)), ...);
#pragma GCC unroll 1
#pragma GCC ivdep
        for (int l = 0; l < count; ++l) lane[l] = join(lane[l], term(in[k][l]...));
      }
      for (int l = 0; i + l < n; l += kLanes) {
        const int64_t rest = n - i - l;
        (store(in[k] + l, rest < kLanes ? load_lanes(x + i + l, rest) : load_lanes(x + i + l)),
         ...);
      }
      for (int l = 0; i + l < n; ++l) lane[l] = join(lane[l], term(in[k][l]...));
      return lanes::fold<count>(lane, join);
    }(std::make_integer_sequence<int, static_cast<int>(sizeof...(P))>());
  }
}

template <typename Term, typename... P>
float sum_row(int64_t n, Term term, P... x) {
  auto add = [](float a, float b) { return a + b; };
  if constexpr (takes_pairs<Term, P...>() && lanes::kLanes == kPaired) {
    vec::VectorPair sums = spread<vec::VectorPair>(0);
    int64_t i = 0;
    for (; i + kPaired <= n; i += kPaired) sums = sums + term(load_pair(x + i)...);
    float lane[kPaired], last[kPaired];
    store_pair(lane, sums);
    if (i < n) store_pair(last, term(load_pair(x + i, n - i)...));
    for (int64_t l = 0; l < n - i; ++l) lane[l] += last[l];
    return lanes::fold(lane, add);
  } else {
    return reduce_row(n, 0.0f, term, add, x...);
  }
}

// Returns the greatest number; NaN is skipped.
template <typename T>
float max_row(int64_t n, const T* x) {
  return reduce_row(
      n, -INFINITY, [](float v) { return v; }, [](float a, float b) { return b > a ? b : a; }, x);
}

// Calls f with operand `input`, floats, if it is present; else with a number.
template <typename F>
void with_weights(const KernelArgs& args, int input, float otherwise, const F& f) {
  const float* weights = input_of<float>(args, input);
  weights ? f(weights) : f(Always{otherwise});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
