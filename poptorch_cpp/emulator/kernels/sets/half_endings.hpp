// Applies endings on halves (base/ending.hpp) to sums in registers.
#pragma once

#include "emulator/kernels/base/ending.hpp"
#include "emulator/kernels/sets/half_elements.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Ends vectors of sums. It holds the parts of the ending in registers, for which the compiler must
// see them as separate members: a store of halves could change them in memory, as far as it knows.
template <Element element>
class HalfEnder {
 public:
  explicit HalfEnder(const HalfEnding& ending)
      : scale_(ending.scale),
        shift_(ending.shift),
        added_(ending.added),
        to_(ending.to),
        least_(spread<Widest>(ending.low)),
        most_(spread<Widest>(ending.high)),
        chains_(ending.scale || ending.added || ending.low > -INFINITY || ending.high < INFINITY) {}

  // The scales and shifts of a vector of columns, the same for all rows.
  struct Chain {
    Widest scale, shift;
  };
  template <bool whole>
  [[gnu::always_inline]] Chain chain(int64_t column, int64_t count) const {
    if (!scale_) return {spread<Widest>(1), spread<Widest>(0)};
    auto floats = [count](const float* x) __attribute__((always_inline)) {
      return whole ? load<Widest>(x) : load(x, first_lanes(count));
    };
    return {floats(scale_ + column), floats(shift_ + column)};
  }

  // Ends a vector whose first element has number `i` from the block's first element. Only the first
  // `count` lanes are stored; a whole vector has kLanes.
  template <bool whole>
  [[gnu::always_inline]] void end(Widest sum, const Chain& chain, int64_t i, int64_t count) const {
    if (chains_) {
      sum = E::round(sum);
      if (scale_) sum = E::round(fmadd(sum, chain.scale, chain.shift));
      if (added_) sum = E::round(sum + halves<whole>(added_ + i, count));
      sum = sum < least_ ? least_ : sum;
      sum = sum > most_ ? most_ : sum;
    }
    if (whole) return E::store_all(to_ + i, sum);
    uint16_t held[kLanes];
    E::store_all(held, sum);
    std::memcpy(to_ + i, held, static_cast<size_t>(count) * sizeof(uint16_t));
  }

 private:
  using E = Elements<element>;
  template <bool whole>
  [[gnu::always_inline]] static Widest halves(const uint16_t* x, int64_t count) {
    return whole ? E::template load_all<Widest>(x) : E::load_first(x, count);
  }

  const float *const scale_, *const shift_;
  const uint16_t* const added_;
  uint16_t* const to_;
  const Widest least_, most_;
  const bool chains_;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
