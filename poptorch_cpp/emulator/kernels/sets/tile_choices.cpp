// Joined steps that choose an element of two by a comparison of two others: masks of gradients, and
// where() as users write it.
#include "emulator/kernels/sets/held_map.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

constexpr auto kOperands = std::make_integer_sequence<int, 4>();

// The result has the bits of x or z.
template <typename Compare>
struct Choose {
  float operator()(float a, float b, float x, float z) const {
    const uint32_t chosen = Compare()(a, b) ? ~uint32_t{0} : 0;
    return vec::bits((vec::bits(x) & chosen) | (vec::bits(z) & ~chosen));
  }
};

// Chooses elements of one form, where the sources `ones` have a single element.
template <Held held, typename F>
bool choose_same(const MicroArgs& a, int64_t n, int ones) {
  auto map = [&]<int k>() { map_elements<float, float, AllHeld<held, k>>(F(), a, n, kOperands); };
  switch (ones) {
    case 0b0000:
      map.template operator()<0b0000>();
      return true;
    case 0b0010:
      map.template operator()<0b0010>();
      return true;
    case 0b0110:
      map.template operator()<0b0110>();
      return true;
    case 0b1010:
      map.template operator()<0b1010>();
      return true;
    default:
      return false;
  }
}

template <typename Compare>
void choose_held(const MicroArgs& a, int64_t n) {
  using F = Exact<Choose<Compare>>;
  const HeldAs& held = *a.held;
  int ones = 0;
  bool same = true;
  for (int k = 0; k < 4; ++k) {
    const bool one = held.sources[k] == Held::kOne;
    ones |= one << k;
    same &= one || held.sources[k] == held.result;
  }
  bool done = false;
  if (same && held.result == Held::kWord) done = choose_same<Held::kWord, F>(a, n, ones);
  if (same && held.result == Held::kHalf) done = choose_same<Held::kHalf, F>(a, n, ones);
  if (same && held.result == Held::kBfloat) done = choose_same<Held::kBfloat, F>(a, n, ones);
  if (!done) map_blocks<float, float>(F(), a, n, kOperands);
}

template <typename Compare>
void choose(const MicroArgs& a, int64_t n) {
  map_elements<float, float, AllHeld<Held::kWord>>(Choose<Compare>(), a, n, kOperands);
}

template <typename Compare>
constexpr Choice choice_by(const char* comparison, Compare) {
  return {comparison, choose<Compare>, choose_held<Compare>};
}

}  // namespace

constinit const std::array<Choice, 6> kChoices = {
    choice_by("lt", [](float a, float b) { return a < b; }),
    choice_by("le", [](float a, float b) { return a <= b; }),
    choice_by("gt", [](float a, float b) { return a > b; }),
    choice_by("ge", [](float a, float b) { return a >= b; }),
    choice_by("eq", [](float a, float b) { return a == b; }),
    choice_by("ne", [](float a, float b) { return a != b; })};

}  // namespace poptorch::emulator::inline POPTORCH_SET
