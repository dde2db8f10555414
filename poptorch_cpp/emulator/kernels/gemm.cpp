#include "emulator/kernels/gemm.hpp"

#include <immintrin.h>

#include <algorithm>

#include "emulator/kernels/wide/gemm_routines.hpp"

namespace poptorch::emulator {
namespace {

// Transposes eight columns of eight: out[q * kPanel + j] = in[q + j * stride].
void transpose_eight(const float* in, int64_t stride, float* out) {
  __m256 r[8], t[8];
  for (int j = 0; j < 8; ++j) r[j] = _mm256_loadu_ps(in + j * stride);
  for (int j = 0; j < 8; j += 2) {
    t[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);
    t[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
  }
  for (int j = 0; j < 8; j += 4) {
    r[j] = _mm256_shuffle_ps(t[j], t[j + 2], 0x44);
    r[j + 1] = _mm256_shuffle_ps(t[j], t[j + 2], 0xee);
    r[j + 2] = _mm256_shuffle_ps(t[j + 1], t[j + 3], 0x44);
    r[j + 3] = _mm256_shuffle_ps(t[j + 1], t[j + 3], 0xee);
  }
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(out + j * kPanel, _mm256_permute2f128_ps(r[j], r[j + 4], 0x20));
    _mm256_storeu_ps(out + (j + 4) * kPanel, _mm256_permute2f128_ps(r[j], r[j + 4], 0x31));
  }
}

void pack_columns(const float* in, int64_t row, int64_t col, int64_t k, int64_t width, float* out) {
  int64_t p = 0;
  for (; row == 1 && width == kPanel && p + 8 <= k; p += 8) {
    transpose_eight(in + p, col, out + p * kPanel);
    transpose_eight(in + p + 8 * col, col, out + p * kPanel + 8);
  }
  for (; p < k; ++p) {
    for (int64_t j = 0; j < width; ++j) out[p * kPanel + j] = in[p * row + j * col];
  }
}

}  // namespace

void pack_panels(const MatrixView& b, int64_t k, int64_t n, int64_t first, int64_t last,
                 float* packed, int64_t panel_k) {
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t begin = panel * kPanel, width = std::min(kPanel, n - begin);
    float* out = packed + panel * kPanel * panel_k;
    if (width < kPanel) std::fill_n(out, kPanel * k, 0.0f);
    const float* in = b.data + begin * b.col;
    if (b.col != 1) {
      pack_columns(in, b.row, b.col, k, width, out);
    } else if (width == kPanel) {
      for (int64_t p = 0; p < k; ++p) {
        _mm256_storeu_ps(out + p * kPanel, _mm256_loadu_ps(in + p * b.row));
        _mm256_storeu_ps(out + p * kPanel + 8, _mm256_loadu_ps(in + p * b.row + 8));
      }
    } else {
      for (int64_t p = 0; p < k; ++p) std::copy_n(in + p * b.row, width, out + p * kPanel);
    }
  }
}

int64_t gemm_scratch_floats(int64_t m, int64_t k) {
  return std::min(m, kRowBlock) * std::min(k, kDepth);
}

namespace {

const GemmRoutines& routines() {
  static const GemmRoutines& here =
      on_host_isa([]<Isa isa>() -> const GemmRoutines& { return gemm_routines<isa>(); });
  return here;
}

}  // namespace

void gemm_packed(int64_t m, int64_t n, int64_t k, const MatrixView& a, const float* packed,
                 int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
                 float* scratch) {
  routines().packed(m, n, k, a, packed, panel_k, bias, c, ldc, accumulate, scratch);
}

void gemm_rows(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
               const float* bias, float* c, int64_t ldc) {
  routines().rows(m, n, k, a, b, bias, c, ldc);
}

void gemm_dots(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
               const float* bias, float* c, int64_t ldc) {
  routines().dots(m, n, k, a, b, bias, c, ldc);
}

}  // namespace poptorch::emulator
