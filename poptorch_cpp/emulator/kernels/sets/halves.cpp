// Conversions of halves by vectors. The tail runs the same instructions.
#include <cstring>

#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

template <typename From, typename To, void (*convert)(const From*, To*)>
void by_vectors(const MicroArgs& a, int64_t n) {
  const From* x = a.in<From>(0);
  To* y = a.out<To>();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) convert(x + i, y + i);
  if (i == n) return;
  From in[kLanes] = {};
  To out[kLanes];
  const auto rest = static_cast<size_t>(n - i);
  std::memcpy(in, x + i, rest * sizeof(From));
  convert(in, out);
  std::memcpy(y + i, out, rest * sizeof(To));
}

inline void widen(const uint16_t* x, float* y) { store(y, load_half<Widest>(x)); }
inline void shorten(const float* x, uint16_t* y) { store_half(y, load<Widest>(x)); }
inline void round(const float* x, float* y) { store(y, round_to_half(load<Widest>(x))); }

}  // namespace

constinit const HalfConversions kHalfConversions = {.load = by_vectors<uint16_t, float, widen>,
                                                    .store = by_vectors<float, uint16_t, shorten>,
                                                    .narrow = by_vectors<float, float, round>};

}  // namespace poptorch::emulator::inline POPTORCH_SET
