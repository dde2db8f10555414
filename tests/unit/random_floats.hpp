// Operands of tests that call routines of kernel sets directly.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace poptorch::emulator {

using Floats = std::vector<float>;

// Returns numbers from -1 to 1 that depend on the seed alone.
inline Floats random_floats(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  Floats values(count);
  for (float& value : values) value = number(generator);
  return values;
}

}  // namespace poptorch::emulator
