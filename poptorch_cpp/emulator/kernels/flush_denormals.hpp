// Moments of an optimiser fade into denormal numbers, on which a host is up to fifty times slower.
// Where they cannot show in a weight, an update takes them for zero.
#pragma once

#include <immintrin.h>

namespace poptorch::emulator {

class FlushDenormals {
 public:
  explicit FlushDenormals(bool flush) : before_(_mm_getcsr()) {
    if (flush) set(before_ | kFlushResults | kFlushOperands);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
  ~FlushDenormals() { set(before_); }

 private:
  static constexpr unsigned kFlushResults = 0x8000, kFlushOperands = 0x0040;  // of MXCSR
  static void set(unsigned state) {
    asm volatile("" ::: "memory");  // no arithmetic on memory passes
    _mm_setcsr(state);
    asm volatile("" ::: "memory");
  }
  unsigned before_;
};

}  // namespace poptorch::emulator
