// The few instructions that are neither arithmetic nor vectors, by architecture.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#include <x86intrin.h>
#endif

namespace poptorch::support {

// Tells the processor that this thread spins.
inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns a counter that runs at a constant rate of 10 MHz to some GHz. Reading it takes
// nanoseconds.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#endif
}

// The register that says how this thread's floating-point arithmetic treats denormal numbers.
class DenormalControl {
 public:
  static uint64_t read() {
#if defined(__x86_64__)
    return _mm_getcsr();
#elif defined(__aarch64__)
    uint64_t state;
    asm volatile("mrs %0, fpcr" : "=r"(state));
    return state;
#endif
  }
  // No arithmetic on memory moves across the call.
  static void write(uint64_t state) {
    asm volatile("" ::: "memory");
#if defined(__x86_64__)
    _mm_setcsr(static_cast<unsigned>(state));
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" ::"r"(state));
#endif
    asm volatile("" ::: "memory");
  }
#if defined(__x86_64__)
  static constexpr uint64_t kFlush = 0x8040;  // MXCSR: results and operands become zero
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ does both
#endif
};

}  // namespace poptorch::support
