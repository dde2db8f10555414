// The loops over channels of depthwise convolutions, and of those with narrow groups. The sums of a
// few output pixels are kept in registers, a block of channels at a time: these pixels share the
// loads of the weights.
#include <algorithm>
#include <utility>

#include "emulator/kernels/sets/end_sums.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/simd.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

constexpr int kVectors = 2;  // of channels
constexpr int kPixels = 6;   // at most; their sums and the weights fill 14 registers

// The template argument `Width` for groups that consist of whole vectors.
constexpr int kWhole = 0;

// Loads a vector of which each lane has the J-th channel of its group of `Width`.
template <int Width, int J>
[[gnu::always_inline]] inline Widest load_of_groups(const float* x) {
  if constexpr (Width == 1) {
    return load<Widest>(x);
  } else if constexpr (Width == kLanes) {
    return spread<Widest>(x[J]);
  } else {
    const Widest all = load<Widest>(x);
    return [&]<int... lane>(std::integer_sequence<int, lane...>) {
      return __builtin_shufflevector(all, all, (lane / Width * Width + J)...);
    }(std::make_integer_sequence<int, kLanes>());
  }
}

// Calls use.operator()<J>() for each J below Width.
template <int Width, typename Use>
[[gnu::always_inline]] inline void for_each_of_group(Use use) {
  [&]<int... j>(std::integer_sequence<int, j...>) {
    (use.template operator()<j>(), ...);
  }(std::make_integer_sequence<int, Width>());
}

// Adds the products of tap t, whose first pixel and channel are at x and w.
template <int Width, int Pixels, int Vectors>
[[gnu::always_inline]] inline void add_tap(const DepthwiseRun& r, const float* x, const float* w,
                                           Widest (&sums)[Pixels][Vectors]) {
  auto add = [&](int64_t j, auto factor) {
    Widest weights[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) weights[v] = load<Widest>(w + j * r.channels + kLanes * v);
    const float* from = x;
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i, from += r.step) {
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) {
        sums[i][v] = fmadd(factor(from, v), weights[v], sums[i][v]);
      }
    }
  };
  if constexpr (Width == kWhole) {
    for (int64_t j = 0; j < r.width; ++j) {
      add(j, [&](const float* from, int) { return spread<Widest>(from[j]); });
    }
  } else {
    for_each_of_group<Width>([&]<int J>() {
      add(J, [](const float* from, int v) { return load_of_groups<Width, J>(from + kLanes * v); });
    });
  }
}

// Sums `Vectors` vectors of channels, from channel c on, of `Pixels` pixels from number p on.
template <int Width, int Pixels, int Vectors>
void whole_block(const DepthwiseRun& r, int64_t p, int64_t c, float* y, const Ending* e) {
  Widest sums[Pixels][Vectors];
#pragma GCC unroll 8
  for (int v = 0; v < Vectors; ++v) {
    const Widest start = r.bias ? load<Widest>(r.bias + c + kLanes * v) : Widest{};
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i) sums[i][v] = start;
  }
  const float *x = r.x + p * r.step + (Width == kWhole ? c / r.width * r.width : c), *w = r.w + c;
  for (int t = 0; t < r.taps; ++t) {
    add_tap<Width, Pixels, Vectors>(r, x + r.from[t], w + r.with[t], sums);
  }
  Ending part;
  if (e) part = e->from(p, c);
#pragma GCC unroll 8
  for (int i = 0; i < Pixels; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      const int64_t at = kLanes * v, in_rows = i * part.row_step + at;
      if (part.scale) {
        sums[i][v] =
            fmadd(sums[i][v], load<Widest>(part.scale + at), load<Widest>(part.shift + at));
      }
      if (part.added) sums[i][v] = sums[i][v] + load<Widest>(part.added + in_rows);
      if (e) sums[i][v] = within(sums[i][v], part.low, part.high);
      float* to = e ? part.to + in_rows : y + (p + i) * r.channels + c + at;
      store(to, sums[i][v]);
    }
  }
}

// Sums the last channels of a pixel, less than a vector.
void part_of_block(const DepthwiseRun& r, int64_t p, int64_t c, float* y, const Ending* e) {
  const int64_t n = r.channels - c;
  float sums[kLanes] = {};
  if (r.bias) std::copy_n(r.bias + c, n, sums);
  for (int t = 0; t < r.taps; ++t) {
    const float *a = r.x + p * r.step + c + r.from[t], *b = r.w + c + r.with[t];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) sums[i] = vec::fma(a[i], b[i], sums[i]);
  }
  if (e) return end_row(e->from(p, c), sums, n);
  std::copy_n(sums, n, y + p * r.channels + c);
}

template <int Width, int Pixels>
void pixels_together(const DepthwiseRun& r, int64_t p, float* y, const Ending* e) {
  int64_t c = 0;
  if (Width == kWhole && r.width % (kVectors * kLanes) != 0) {
    for (; c < r.channels; c += kLanes) whole_block<Width, Pixels, 1>(r, p, c, y, e);
    return;
  }
  for (; c + kVectors * kLanes <= r.channels; c += kVectors * kLanes) {
    whole_block<Width, Pixels, kVectors>(r, p, c, y, e);
  }
  if (c + kLanes <= r.channels) whole_block<Width, Pixels, 1>(r, p, c, y, e), c += kLanes;
  for (int64_t i = 0; c < r.channels && i < Pixels; ++i) part_of_block(r, p + i, c, y, e);
}

template <int Width>
void sum_pixels(const DepthwiseRun& r, int64_t pixels, float* y, const Ending* ending) {
  static constexpr decltype(&pixels_together<Width, 1>) kTogether[] = {
      pixels_together<Width, 1>, pixels_together<Width, 2>, pixels_together<Width, 3>,
      pixels_together<Width, 4>, pixels_together<Width, 5>, pixels_together<Width, 6>};
  for (int64_t p = 0; p < pixels; p += kPixels) {
    kTogether[std::min<int64_t>(pixels - p, kPixels) - 1](r, p, y, ending);
  }
}

// The operands of AddRowProducts.
struct RowProducts {
  const float* a;
  int64_t a_step;
  const float* b;
  int64_t b_step, n, channels;
  float* y;
};

// Adds the products of `Vectors` vectors of channels, from channel c on.
template <int Width, int Vectors>
void add_products_of_block(const RowProducts& r, int64_t c) {
  Widest sums[Width][Vectors];
  for_each_of_group<Width>([&]<int J>() {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      sums[J][v] = load<Widest>(r.y + J * r.channels + c + kLanes * v);
    }
  });
  for (int64_t i = 0; i < r.n; ++i) {
    const float *a = r.a + i * r.a_step + c, *b = r.b + i * r.b_step + c;
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      const Widest factor = load<Widest>(b + kLanes * v);
      for_each_of_group<Width>([&]<int J>() {
        sums[J][v] = fmadd(load_of_groups<Width, J>(a + kLanes * v), factor, sums[J][v]);
      });
    }
  }
  for_each_of_group<Width>([&]<int J>() {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      store(r.y + J * r.channels + c + kLanes * v, sums[J][v]);
    }
  });
}

// Adds the products of one vector of channels to rows [j, j + kRows), for groups of whole vectors.
constexpr int kRows = 8;
void add_products_of_rows(const RowProducts& r, int64_t width, int64_t c, int64_t j) {
  Widest sums[kRows];
  const float* a = r.a + c / width * width + j;
  float* y = r.y + j * r.channels + c;
#pragma GCC unroll 8
  for (int k = 0; k < kRows; ++k) sums[k] = load<Widest>(y + k * r.channels);
  for (int64_t i = 0; i < r.n; ++i, a += r.a_step) {
    const Widest factor = load<Widest>(r.b + i * r.b_step + c);
#pragma GCC unroll 8
    for (int k = 0; k < kRows; ++k) sums[k] = fmadd(spread<Widest>(a[k]), factor, sums[k]);
  }
#pragma GCC unroll 8
  for (int k = 0; k < kRows; ++k) store(y + k * r.channels, sums[k]);
}

template <int Width>
void add_products(const RowProducts& r, int64_t width) {
  if constexpr (Width == kWhole) {
    for (int64_t c = 0; c < r.channels; c += kLanes) {
      for (int64_t j = 0; j < width; j += kRows) add_products_of_rows(r, width, c, j);
    }
  } else {
    constexpr int kTogether = Width == 1 ? 32 / kLanes : 8 / Width;
    int64_t c = 0;
    for (; c + kTogether * kLanes <= r.channels; c += kTogether * kLanes) {
      add_products_of_block<Width, kTogether>(r, c);
    }
    for (; Width > 1 && c < r.channels; c += kLanes) add_products_of_block<Width, 1>(r, c);
    for (int64_t i = 0; i < r.n; ++i) {
#pragma GCC ivdep
      for (int64_t k = c; k < r.channels; ++k) {
        r.y[k] = vec::fma(r.a[i * r.a_step + k], r.b[i * r.b_step + k], r.y[k]);
      }
    }
  }
}

// Calls run.operator()<Width>() for a width that ConvShape::by_channels() accepts.
template <typename Run>
void with_width(int64_t width, Run run) {
  if (width == 1) return run.template operator()<1>();
  if (width == 2) return run.template operator()<2>();
  if (width == 4) return run.template operator()<4>();
  if constexpr (kLanes >= 8) {
    if (width == 8) return run.template operator()<8>();
  }
  run.template operator()<kWhole>();
}

}  // namespace

void depthwise_pixels(const DepthwiseRun& r, int64_t pixels, float* y, const Ending* ending) {
  with_width(r.width, [&]<int Width>() { sum_pixels<Width>(r, pixels, y, ending); });
}

void add_row_products(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t n,
                      int64_t channels, int64_t width, float* y) {
  const RowProducts products{a, a_step, b, b_step, n, channels, y};
  with_width(width, [&]<int Width>() { add_products<Width>(products, width); });
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
