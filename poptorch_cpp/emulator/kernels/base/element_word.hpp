// Chooses the unsigned type that has the bits of an element, for kernels that only move elements.
#pragma once

#include <cstdint>

namespace poptorch::emulator {

// Returns use(word) with a word of `bytes`: 1, 2, 4 or 8.
template <typename Use>
auto with_word(int64_t bytes, Use use) {
  switch (bytes) {
    case 1:
      return use(uint8_t{});
    case 2:
      return use(uint16_t{});
    case 4:
      return use(uint32_t{});
    default:
      return use(uint64_t{});
  }
}

}  // namespace poptorch::emulator
