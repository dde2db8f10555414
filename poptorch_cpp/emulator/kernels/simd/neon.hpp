// The vectors of NEON on aarch64.
#pragma once

#include <arm_neon.h>

#include "emulator/kernels/simd/four_lanes.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int kRegisters = 32;

inline Widest fmadd(Widest a, Widest b, Widest c) { return vfmaq_f32(c, a, b); }
inline Widest root(Widest x) { return vsqrtq_f32(x); }

template <typename V>
V load_half(const uint16_t* x) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}
inline void store_half(uint16_t* y, Widest v) {
  vst1_u16(y, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}
inline Widest round_to_half(Widest x) { return vcvt_f32_f16(vcvt_f16_f32(x)); }

using Longs2 = uint64_t __attribute__((vector_size(16)));
// Returns the products of the lower halves of the lanes.
inline Longs2 low_product(Longs2 a, Longs2 b) {
  return reinterpret_cast<Longs2>(vmull_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(a)),
                                            vmovn_u64(reinterpret_cast<uint64x2_t>(b))));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
