// Joined steps that apply two operations of arithmetic in one pass. They have the same operations
// in the same order, so that results have the same bits.
#include "emulator/kernels/sets/joined_map.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/random_map.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// Operations on floats and on vectors of them.
struct Plus {
  static constexpr const char* kName = "add";
  static auto of(auto x, auto y) { return x + y; }
};
struct Minus {
  static constexpr const char* kName = "sub";
  static auto of(auto x, auto y) { return x - y; }
};
struct Times {
  static constexpr const char* kName = "mul";
  static auto of(auto x, auto y) { return x * y; }
};
struct Over {
  static constexpr const char* kName = "div";
  static auto of(auto x, auto y) { return x / y; }
};

// Computes second(first(x, y), z), or second(z, first(x, y)) for place 1.
template <typename First, typename Second, int place>
struct Pair {
  static constexpr bool kTakesVectors = true;
  [[gnu::always_inline]] auto operator()(auto x, auto y, auto z) const {
    if constexpr (place == 0) return Second::of(First::of(x, y), z);
    return Second::of(z, First::of(x, y));
  }
};

template <typename F>
void pair(const MicroArgs& a, int64_t n) {
  map_elements<float, float, AllHeld<Held::kWord>>(F(), a, n, std::make_integer_sequence<int, 3>());
}
template <typename F>
constexpr MicroFn kPairOfHeld = map_joined<3, F, 0b000, 0b001, 0b010, 0b100, 0b110>;

template <typename F>
void pair_at_random(const MicroArgs& a, int64_t n) {
  map_random<3, kPairOfHeld<F>>(a, n, F());
}

template <typename First, typename Second, int place = 0>
constexpr JoinedPair joined() {
  using F = Pair<First, Second, place>;
  return {.first = First::kName,
          .second = Second::kName,
          .place = place,
          .fn = pair<F>,
          .held_fn = kPairOfHeld<F>,
          .random_fn = pair_at_random<F>};
}

}  // namespace

constinit const std::array<JoinedPair, 20> kPairs = {
    joined<Plus, Plus>(),      joined<Plus, Minus>(),     joined<Plus, Minus, 1>(),
    joined<Plus, Times>(),     joined<Plus, Over>(),      joined<Minus, Plus>(),
    joined<Minus, Minus>(),    joined<Minus, Minus, 1>(), joined<Minus, Times>(),
    joined<Minus, Over>(),     joined<Times, Plus>(),     joined<Times, Minus>(),
    joined<Times, Minus, 1>(), joined<Times, Times>(),    joined<Times, Over>(),
    joined<Over, Plus>(),      joined<Over, Minus>(),     joined<Over, Minus, 1>(),
    joined<Over, Times>(),     joined<Over, Over>()};

}  // namespace poptorch::emulator::inline POPTORCH_SET
