// The vectors of instruction sets with four floats in each. These sets have no masks, so the lanes
// of the end of a row are copied, and nothing beyond them is read or written.
#pragma once

#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

using Widest = Floats4;
using Narrow = Floats4;

struct Mask {
  size_t bytes;
};
inline Mask first_lanes(int64_t count) { return {static_cast<size_t>(count) * sizeof(float)}; }
inline Widest load(const float* x, Mask lanes) {
  Widest v{};
  std::memcpy(&v, x, lanes.bytes);
  return v;
}
inline void store(float* y, Mask lanes, Widest v) { std::memcpy(y, &v, lanes.bytes); }

using Words4 = uint32_t __attribute__((vector_size(16)));
// Returns bytes as words, with the bits of floats.
inline Widest load_bytes(const uint8_t* x) {
  return reinterpret_cast<Widest>(Words4{x[0], x[1], x[2], x[3]});
}
template <typename V>
V load_bfloat(const uint16_t* x) {
  return reinterpret_cast<V>(Words4{x[0], x[1], x[2], x[3]} << 16);
}
inline void store_bfloat(uint16_t* y, Widest v) {
  const Words4 words = bfloat_bits<Words4>(v);
  for (int i = 0; i < 4; ++i) y[i] = static_cast<uint16_t>(words[i]);
}
inline Widest round_to_bfloat(Widest x) {
  return reinterpret_cast<Widest>(bfloat_bits<Words4>(x) << 16);
}

// Transposes kBlock columns of kBlock floats: out[q * out_row + j] = in[j * in_column + q].
constexpr int kBlock = 4;
inline void transpose_block(const float* in, int64_t in_column, float* out, int64_t out_row) {
  Floats4 r[4];
  for (int j = 0; j < 4; ++j) r[j] = load<Floats4>(in + j * in_column);
  for (int j = 0; j < 2; ++j) {
    const Floats4 even = j == 0 ? __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5)
                                : __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const Floats4 odd = j == 0 ? __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5)
                               : __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    store(out + 2 * j * out_row, __builtin_shufflevector(even, odd, 0, 1, 4, 5));
    store(out + (2 * j + 1) * out_row, __builtin_shufflevector(even, odd, 2, 3, 6, 7));
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
