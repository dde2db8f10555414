// Conversions: memory to registers and back, register class to register class, and narrowing.
#include "emulator/kernels/sets/held_map.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using ir::DType;
using enum RegisterClass;

struct Same {
  float operator()(float x) const { return x; }
};

template <typename T, typename R>
void convert(const MicroArgs& a, int64_t n) {
  auto same = [](T x) { return x; };
  map1<T, R, decltype(same)>(a, n);
}

void load_bfloat(const MicroArgs& a, int64_t n) {
  const uint16_t* x = a.in<uint16_t>(0);
  float* y = a.out<float>();
  for (int64_t i = 0; i < n; ++i) y[i] = vec::bits(static_cast<uint32_t>(x[i]) << 16);
}

void store_bfloat(const MicroArgs& a, int64_t n) {
  const float* x = a.in<float>(0);
  uint16_t* y = a.out<uint16_t>();
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = vec::bits(vec::round_to_bf16(x[i]));
    y[i] = static_cast<uint16_t>((u >> 16) | (x[i] != x[i] ? 0x40u : 0u));
  }
}

void narrow_bfloat(const MicroArgs& a, int64_t n) {
  auto round = [](float x) { return vec::round_to_bf16(x); };
  map1<float, float, decltype(round)>(a, n);
}

// Copies floats of any form.
void copy_held(const MicroArgs& a, int64_t n) {
  const Held from = a.held->sources[0], to = a.held->result;
  if (to == Held::kWord) return to_words(from, a.src[0], 0, n, a.out<float>());
  if (from == Held::kWord) return from_words(a.in<float>(0), to, a.dst[0], 0, n);
  map_held_of<1, float, float, Exact<Same>>(a, n);
}

template <typename T, typename R>
void to_truth(const MicroArgs& a, int64_t n) {
  auto truth = [](T x) { return x != 0; };
  map1<T, R, decltype(truth)>(a, n);
}

template <typename N, typename R>
void narrow_whole(const MicroArgs& a, int64_t n) {
  auto cut = [](R x) { return static_cast<N>(x); };
  map1<R, R, decltype(cut)>(a, n);
}

template <typename Wide>
MicroFn from_class(RegisterClass to) {
  switch (to) {
    case kF32:
      return convert<Wide, float>;
    case kI32:
      return convert<Wide, int32_t>;
    case kI64:
      return convert<Wide, int64_t>;
    case kF64:
    case kNone:
      break;
  }
  return nullptr;
}

template <typename Wide>
MicroFn truth_from() {
  return to_truth<Wide, int32_t>;
}

struct DTypeRow {
  DType dtype;
  MicroFn load, store, narrow;
};

constexpr DTypeRow kDTypeRows[] = {
    {DType::kF32, convert<float, float>, convert<float, float>, nullptr},
    {DType::kF16, nullptr, nullptr, nullptr},  // halves.cpp
    {DType::kBF16, load_bfloat, store_bfloat, narrow_bfloat},
    {DType::kBool, convert<uint8_t, int32_t>, convert<int32_t, uint8_t>,
     to_truth<int32_t, int32_t>},
    {DType::kI8, convert<int8_t, int32_t>, convert<int32_t, int8_t>, narrow_whole<int8_t, int32_t>},
    {DType::kU8, convert<uint8_t, int32_t>, convert<int32_t, uint8_t>,
     narrow_whole<uint8_t, int32_t>},
    {DType::kI16, convert<int16_t, int32_t>, convert<int32_t, int16_t>,
     narrow_whole<int16_t, int32_t>},
    {DType::kU16, convert<uint16_t, int32_t>, convert<int32_t, uint16_t>,
     narrow_whole<uint16_t, int32_t>},
    {DType::kI32, convert<int32_t, int32_t>, convert<int32_t, int32_t>, nullptr},
    {DType::kU32, convert<uint32_t, int64_t>, convert<int64_t, uint32_t>,
     narrow_whole<uint32_t, int64_t>},
    {DType::kF64, convert<double, double>, convert<double, double>, nullptr},
    {DType::kI64, convert<int64_t, int64_t>, convert<int64_t, int64_t>, nullptr},
};

const DTypeRow* find(DType dtype) {
  for (const DTypeRow& row : kDTypeRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

MicroFn load_of(DType dtype) {
  return dtype == DType::kF16 ? kHalfConversions.load : find(dtype)->load;
}
MicroFn store_of(DType dtype) {
  return dtype == DType::kF16 ? kHalfConversions.store : find(dtype)->store;
}
MicroFn narrow_of(DType dtype) {
  return dtype == DType::kF16 ? kHalfConversions.narrow : find(dtype)->narrow;
}

MicroFn cast_of(DType from, DType to) {
  const RegisterClass held = register_class(from);
  if (to == DType::kBool) {
    return held == kF32   ? truth_from<float>()
           : held == kI32 ? truth_from<int32_t>()
                          : truth_from<int64_t>();
  }
  return held == kF32   ? from_class<float>(register_class(to))
         : held == kI32 ? from_class<int32_t>(register_class(to))
                        : from_class<int64_t>(register_class(to));
}

}  // namespace

constinit const Conversions kConversions = {.load = load_of,
                                            .store = store_of,
                                            .cast = cast_of,
                                            .narrow = narrow_of,
                                            .round_at_random = rounding_at_random,
                                            .copy_held = copy_held};

}  // namespace poptorch::emulator::inline POPTORCH_SET
