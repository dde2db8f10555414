// Sums of the lanes of several vectors at once, with the bits of sum_of() of each.
#pragma once

#include <utility>

#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Returns the lane of two neighbouring vectors (b's lanes follow a's) that lane `to` of fold()
// takes from the half `half` of a group of `length` lanes. Groups of at most four lanes stay in
// their 16 bytes: such moves are the fastest.
constexpr int source_of_fold(int length, int to, int half) {
  const int part = length / 2;
  if (length > 4) {
    const int group = to / part;  // those of a, then those of b
    return group * length + half * part + to % part;
  }
  const int within = to % 4, moved = within % 2;
  const int lane = length == 4 ? moved + 2 * half : 2 * moved + half;
  return within / 2 * kLanes + to - within + lane;
}

// Adds the halves of each group of `length` lanes of a and of b: groups become half as long.
template <int length, int... to>
[[gnu::always_inline]] inline Widest fold(Widest a, Widest b,
                                          std::integer_sequence<int, to...> /*lanes*/) {
  return __builtin_shufflevector(a, b, source_of_fold(length, to, 0)...) +
         __builtin_shufflevector(a, b, source_of_fold(length, to, 1)...);
}

// Folds `length` vectors, whose groups have as many lanes, until one is left.
template <int length>
[[gnu::always_inline]] inline Widest folded(Widest (&v)[kLanes]) {
  if constexpr (length == 1) {
    return v[0];
  } else {
    constexpr std::make_integer_sequence<int, kLanes> kTo;
#pragma GCC unroll 8
    for (int i = 0; i < length / 2; ++i) v[i] = fold<length>(v[2 * i], v[2 * i + 1], kTo);
    return folded<length / 2>(v);
  }
}

// Returns the sums of `count` vectors, of at most kLanes; vector(i) returns the i-th. The other
// lanes are 0.
template <int count, typename Vector>
[[gnu::always_inline]] inline Widest sums_of(Vector vector) {
  static_assert(count <= kLanes);
  constexpr int kParts = kLanes / 4;  // fold() leaves sums i, i + kParts, ... together
  Widest v[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    const int number = 4 * (i % kParts) + i / kParts;
    v[i] = number < count ? vector(number) : Widest{};
  }
  return folded<kLanes>(v);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
