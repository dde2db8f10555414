// The order of a tensor's elements in host memory.
#pragma once

#include <cstdint>

namespace poptorch::emulator {

struct Layout {
  enum class Kind : uint8_t {
    kPlain,         // row-major in the order of the type's dimensions
    kChannelsLast,  // [n, spatial..., c] for a type [n, c, spatial...]
    // The right-hand side of a product, as gemm_packed reads it: panels of kPanel (gemm.hpp)
    // columns, each row-major. The columns are the rows of a type [n, k], or those of a type
    // [k, n]. There are whole panels only. Nothing but a kernel that asked for them can read them.
    kPanelsOfRows,  // a row of [n, c, spatial...] is [spatial..., c]
    kPanelsOfColumns,
  };
  Kind kind = Kind::kPlain;
  bool is_panels() const { return kind == Kind::kPanelsOfRows || kind == Kind::kPanelsOfColumns; }
  bool operator==(const Layout&) const = default;
};

}  // namespace poptorch::emulator
