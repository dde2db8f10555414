// Blocks of halves that become floats, and blocks of sums that become halves.
#include <algorithm>

#include "emulator/kernels/sets/half_endings.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// The loop goes down the columns: rows share the loads of a chain's scales.
template <Element element>
void end_rows(const HalfEnding& e, const float* sums, int64_t step, int64_t rows, int64_t columns) {
  const HalfEnder<element> ender(e);
  const int64_t row_step = e.row_step;
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    const auto chain = ender.template chain<true>(j, kLanes);
    for (int64_t i = 0; i < rows; ++i) {
      ender.template end<true>(load<Widest>(sums + i * step + j), chain, i * row_step + j, kLanes);
    }
  }
  if (j == columns) return;
  const int64_t count = columns - j;
  const auto chain = ender.template chain<false>(j, count);
  for (int64_t i = 0; i < rows; ++i) {
    const Widest last = load(sums + i * step + j, first_lanes(count));
    ender.template end<false>(last, chain, i * row_step + j, count);
  }
}

// Returns the even lanes of `a`, then those of `b`.
template <int... I>
Widest even_lanes(std::integer_sequence<int, I...>, Widest a, Widest b) {
  return __builtin_shufflevector(a, b, 2 * I...);
}
template <int... I>
Widest odd_lanes(std::integer_sequence<int, I...>, Widest a, Widest b) {
  return __builtin_shufflevector(a, b, (2 * I + 1)...);
}

template <Element element>
void split_in_four(const uint16_t* x, int64_t n, float* y, int64_t step) {
  using E = Elements<element>;
  constexpr std::make_integer_sequence<int, kLanes> kAll;
  int64_t q = 0;
  for (; 4 * q + 4 * kLanes <= n; q += kLanes, x += 4 * kLanes) {
    Widest v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) v[i] = E::template load_all<Widest>(x + i * kLanes);
    const Widest even0 = even_lanes(kAll, v[0], v[1]), even1 = even_lanes(kAll, v[2], v[3]);
    const Widest odd0 = odd_lanes(kAll, v[0], v[1]), odd1 = odd_lanes(kAll, v[2], v[3]);
    store(y + q, even_lanes(kAll, even0, even1));
    store(y + step + q, even_lanes(kAll, odd0, odd1));
    store(y + 2 * step + q, odd_lanes(kAll, even0, even1));
    store(y + 3 * step + q, odd_lanes(kAll, odd0, odd1));
  }
  const int64_t rest = n - 4 * q;
  float held[4 * kLanes];
  to_floats(element, x, held, rest);
  for (int64_t i = 0; i < rest; ++i) y[i % 4 * step + q + i / 4] = held[i];
}

}  // namespace

constinit const HalfBlocks kHalfBlocks = {
    .end_rows = {end_rows<Element::kHalf>, end_rows<Element::kBfloat>},
    .split_in_four = {split_in_four<Element::kHalf>, split_in_four<Element::kBfloat>}};

}  // namespace poptorch::emulator::inline POPTORCH_SET
