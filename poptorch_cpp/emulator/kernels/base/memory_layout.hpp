// The order of a tensor's elements in host memory.
#pragma once

#include <cstdint>

namespace poptorch::emulator {

struct Layout {
  enum class Kind : uint8_t {
    kPlain,         // row-major in the order of the type's dimensions
    kChannelsLast,  // [n, spatial..., c] for a type [n, c, spatial...]
  };
  Kind kind = Kind::kPlain;
  bool operator==(const Layout&) const = default;
};

}  // namespace poptorch::emulator
