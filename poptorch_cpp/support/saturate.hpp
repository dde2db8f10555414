// Saturating sums and products: they stop at the largest number, which endless loops reach.
#pragma once

#include <cstdint>

namespace poptorch::support {

inline int64_t saturating_sum(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_add_overflow(a, b, &result) ? INT64_MAX : result;
}

// Requires numbers that are not negative.
inline int64_t saturating_product(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

}  // namespace poptorch::support
