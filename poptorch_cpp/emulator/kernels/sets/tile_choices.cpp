// Joined steps that choose an element of two by a comparison of two others: masks of gradients, and
// where() as users write it.
#include "emulator/kernels/sets/joined_map.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// The result has the bits of x or z.
template <typename Compare>
struct Choose {
  static constexpr bool kTakesVectors = true;
  [[gnu::always_inline]] auto operator()(auto a, auto b, auto x, auto z) const {
    return Compare()(a, b) ? x : z;
  }
};

template <typename Compare>
void choose(const MicroArgs& a, int64_t n) {
  map_elements<float, float, AllHeld<Held::kWord>>(Choose<Compare>(), a, n,
                                                   std::make_integer_sequence<int, 4>());
}

template <typename Compare>
constexpr Choice choice_by(const char* comparison, Compare) {
  return {comparison, choose<Compare>,
          map_joined<4, Exact<Choose<Compare>>, 0b0000, 0b0010, 0b0110, 0b1010>};
}

}  // namespace

constinit const std::array<Choice, 6> kChoices = {
    choice_by("lt", [](auto a, auto b) { return a < b; }),
    choice_by("le", [](auto a, auto b) { return a <= b; }),
    choice_by("gt", [](auto a, auto b) { return a > b; }),
    choice_by("ge", [](auto a, auto b) { return a >= b; }),
    choice_by("eq", [](auto a, auto b) { return a == b; }),
    choice_by("ne", [](auto a, auto b) { return a != b; })};

}  // namespace poptorch::emulator::inline POPTORCH_SET
