// Loops of joined steps over operands that are held as words or as in memory.
#pragma once

#include "emulator/kernels/sets/held_map.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Maps elements in the form of the result, where the sources `wanted` have a single element.
// Returns false if no loop of `ones` is for these.
template <Held held, int operands, typename F, int... ones>
bool map_joined_as(const MicroArgs& a, int64_t n, int wanted, std::integer_sequence<int, ones...>) {
  constexpr auto kOperands = std::make_integer_sequence<int, operands>();
  auto map = [&]<int k>() {
    map_elements<float, float, AllHeld<held, k>>(F(), a, n, kOperands);
    return true;
  };
  return ((wanted == ones && map.template operator()<ones>()) || ...);
}

// Maps by loops for each of `ones`, the bits of the sources with a single element, if all other
// sources have the form of the result; else block by block.
template <int operands, typename F, int... ones>
void map_joined(const MicroArgs& a, int64_t n) {
  constexpr std::integer_sequence<int, ones...> kOnes;
  const HeldAs& held = *a.held;
  int wanted = 0;
  bool same = true;
  for (int k = 0; k < operands; ++k) {
    const bool one = held.sources[k] == Held::kOne;
    wanted |= one << k;
    same &= one || held.sources[k] == held.result;
  }
  bool done = false;
  if (same && held.result == Held::kWord) {
    done = map_joined_as<Held::kWord, operands, F>(a, n, wanted, kOnes);
  } else if (same && held.result == Held::kHalf) {
    done = map_joined_as<Held::kHalf, operands, F>(a, n, wanted, kOnes);
  } else if (same && held.result == Held::kBfloat) {
    done = map_joined_as<Held::kBfloat, operands, F>(a, n, wanted, kOnes);
  }
  if (!done) {
    map_blocks<float, float>(F(), a, n, std::make_integer_sequence<int, operands>());
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
