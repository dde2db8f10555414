// The operations that combine an element with the value at its place.
#pragma once

#include "emulator/kernels/base/wrapping.hpp"

namespace poptorch::emulator {

// Kernels of all instruction sets contain these functions, so they must not exist outside of them.
struct Add {
  template <typename T>
  [[gnu::always_inline]] static T join(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Multiply {
  template <typename T>
  [[gnu::always_inline]] static T join(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
// NaN is greater than every number.
struct Most {
  template <typename T>
  [[gnu::always_inline]] static T join(T a, T b) {
    return a >= b || a != a ? a : b;
  }
};
struct Least {
  template <typename T>
  [[gnu::always_inline]] static T join(T a, T b) {
    return a <= b || a != a ? a : b;
  }
};

}  // namespace poptorch::emulator
