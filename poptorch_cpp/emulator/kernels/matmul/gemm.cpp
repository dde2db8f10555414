#include "emulator/kernels/base/gemm.hpp"

#include <algorithm>

#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {

void pack_panels(const OperandView& b, int64_t k, int64_t n, int64_t first, int64_t last,
                 void* packed, int64_t panel_k) {
  kernel_set().gemm.pack(b, k, n, first, last, packed, panel_k);
}

int64_t gemm_scratch_floats(int64_t m, int64_t k) {
  return std::min(m, kRowBlock) * std::min(k, kDepth);
}

void gemm_packed(int64_t m, int64_t n, int64_t k, const OperandView& a, const void* packed,
                 int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
                 float* scratch, Element packed_as, const Ending* ending,
                 const HalfEnding* half_ending, bool by_parts) {
  kernel_set().gemm.packed(m, n, k, a, packed, panel_k, bias, c, ldc, accumulate, scratch,
                           packed_as, ending, half_ending, by_parts);
}
bool repays_parts(int64_t m, int64_t n, int64_t k, Element a, Element b) {
  if (!kernel_set().gemm.multiplies_matrices || a != b) return false;
  if (a == Element::kHalf) return m >= 32 && n >= 32 && k >= 33;
  // Few rows do not repay the parts of b, nor few columns those of a.
  return a == Element::kFloat && m * n >= 48 * (m + n) && k >= 96;
}

bool multiplies_matrices(Element a, Element b) {
  return kernel_set().gemm.multiplies_matrices && a == Element::kBfloat && b == a;
}

void gemm_half_partials(int64_t m, int64_t n, int64_t k, const OperandView& a, const void* packed,
                        int64_t panel_k, float* c, int64_t ldc, bool accumulate, float* scratch,
                        Element packed_as) {
  kernel_set().gemm.half_partials(m, n, k, a, packed, panel_k, c, ldc, accumulate, scratch,
                                  packed_as);
}

void gemm_rows(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
               const float* bias, float* c, int64_t ldc) {
  kernel_set().gemm.rows(m, n, k, a, b, bias, c, ldc);
}

void gemm_dots(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
               const float* bias, float* c, int64_t ldc) {
  kernel_set().gemm.dots(m, n, k, a, b, bias, c, ldc);
}

bool gemm_dots_take(Element a, Element b) {
  return a == Element::kFloat ||
         (kernel_set().gemm.multiplies_pairs && a == Element::kBfloat && b == a);
}

}  // namespace poptorch::emulator
