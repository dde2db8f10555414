// Moments of an optimiser fade into denormal numbers, on which a host is up to fifty times slower.
// An update treats denormals as zero where they cannot affect a weight.
#pragma once

#include <immintrin.h>

namespace poptorch::emulator {

class FlushDenormals {
 public:
  explicit FlushDenormals(bool flush) : flush_(flush) {
    if (!flush_) return;
    before_ = _mm_getcsr();
    set(before_ | kFlushResults | kFlushOperands);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
  ~FlushDenormals() {
    if (flush_) set(before_);
  }

 private:
  static constexpr unsigned kFlushResults = 0x8000, kFlushOperands = 0x0040;  // of MXCSR
  static void set(unsigned state) {
    asm volatile("" ::: "memory");  // no arithmetic on memory passes
    _mm_setcsr(state);
    asm volatile("" ::: "memory");
  }
  bool flush_;
  unsigned before_ = 0;
};

}  // namespace poptorch::emulator
