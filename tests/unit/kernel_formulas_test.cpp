// Formulas of element-wise ops give the same numbers in every set with fused multiply-adds.
#include <bit>
#include <cmath>
#include <vector>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"

namespace poptorch::emulator {
namespace {

// Returns floats of all signs and exponents, with infinities, NaN and denormals among them.
Floats floats_of_all_bits() {
  Floats x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 98317) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const float special : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, 0.75f, 1.5f}) {
    x.push_back(special);
  }
  return x;
}

// Some sets have formulas of vectors, others of floats.
TEST(Formulas, GiveTheSameNumbersInEverySet) {
  const Floats x = floats_of_all_bits();
  const auto n = static_cast<int64_t>(x.size());
  int compared = 0;
  std::vector<const KernelSet*> fused;
  for (const KernelSet* set : host_kernel_sets()) {
    if (set->name != "SSE4") fused.push_back(set);
  }
  if (fused.size() < 2) GTEST_SKIP() << "the host or the build has one set alone";
  std::vector<MicroRow> few, many;
  fused[0]->add_micro_rows(few);
  for (size_t s = 1; s < fused.size(); ++s) {
    many.clear();
    fused[s]->add_micro_rows(many);
    for (size_t i = 0; i < many.size(); ++i) {
      const bool floats =
          many[i].source == RegisterClass::kF32 && many[i].result == RegisterClass::kF32;
      if (!floats || !many[i].held_fn || many[i].immediates) continue;
      Floats one(x.size()), other(x.size());
      const HeldAs words;
      MicroArgs args;
      args.held = &words;
      args.src[0] = args.src[1] = args.src[2] = x.data();
      args.dst[0] = one.data();
      few[i].fn(args, n);
      args.dst[0] = other.data();
      many[i].fn(args, n);
      int64_t different = 0, at = 0;
      for (int64_t k = 0; k < n; ++k) {
        const bool nan = std::isnan(one[k]) && std::isnan(other[k]);
        if (nan || std::bit_cast<uint32_t>(one[k]) == std::bit_cast<uint32_t>(other[k])) continue;
        ++different, at = k;
      }
      EXPECT_EQ(different, 0) << fused[s]->name << " " << many[i].op << "(" << x[at]
                              << "): " << one[at] << " and " << other[at];
      ++compared;
    }
  }
  EXPECT_GT(compared, 40);
}

}  // namespace
}  // namespace poptorch::emulator
