// Copies elements without the call that a short run of them does not pay for.
#pragma once

#include <cstdint>
#include <cstring>

namespace poptorch::emulator {

// Copies n elements of x to y, which do not overlap.
template <typename T>
void copy_run(const T* x, T* y, int64_t n) {
  typedef char Vector __attribute__((vector_size(16)));
  constexpr int64_t kVector = sizeof(Vector) / sizeof(T), kShort = 16 * kVector;
  if (n > kShort) {
    std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  auto copy_vector = [=](int64_t i) {
    Vector v;
    std::memcpy(&v, x + i, sizeof v);
    std::memcpy(y + i, &v, sizeof v);
  };
  if (n >= kVector) {
    for (int64_t i = 0; i + kVector < n; i += kVector) copy_vector(i);
    copy_vector(n - kVector);  // overlaps the one before
    return;
  }
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
}

}  // namespace poptorch::emulator
