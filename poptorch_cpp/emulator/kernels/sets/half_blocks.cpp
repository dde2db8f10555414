// Blocks of sums that become halves.
#include <algorithm>

#include "emulator/kernels/sets/half_endings.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/random_endings.hpp"

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

}  // namespace

constinit const HalfBlocks kHalfBlocks = {
    .end_rows = {end_rows<Element::kHalf>, end_rows<Element::kBfloat>},
    .end_rows_at_random = {end_at_random<Element::kHalf>, end_at_random<Element::kBfloat>}};

}  // namespace poptorch::emulator::inline POPTORCH_SET
