// Products as dot products of rows of a and columns of b, each of which is contiguous.
#pragma once

#include <algorithm>
#include <utility>

#include "emulator/kernels/sets/bfloat_pairs.hpp"
#include "emulator/kernels/simd/sums.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int64_t kDotRows = kRegisters == 32 ? 8 : 4;  // at once
// Returns the columns processed at once: sums and rows fit in the registers.
constexpr int dot_columns(int rows) {
  if (kRegisters == 32) return rows <= 2 ? 8 : rows <= 4 ? 4 : 2;
  return rows == 1 ? 8 : rows == 2 ? 5 : 3;
}

// Columns are processed in blocks whose part of b stays in L2 while the rows pass over it.
constexpr int64_t kDotColumns = 48;

template <typename B, typename A = float>
struct Dots {
  const A* a;
  int64_t a_row;
  const typename B::Stored* b;
  int64_t b_col;
  const float* bias;
  float* c;
  int64_t ldc, k;
  bool denormal_a = false;  // of pairs
};

// Stores the sums of the lanes, plus the bias.
template <int R, int C, typename T>
[[gnu::always_inline]] inline void store_dots(const T& t, const Widest (&sums)[R][C]) {
  constexpr int kSums = R * C, kVectors = (kSums + kLanes - 1) / kLanes;
  alignas(64) float values[kVectors * kLanes];
  const auto store_vector = [&]<int v>() __attribute__((always_inline)) {
    constexpr int kFirst = v * kLanes;
    store(values + kFirst,
          sums_of<std::min(kSums - kFirst, int{kLanes})>([&](int i) __attribute__((always_inline)) {
            return sums[(kFirst + i) / C][(kFirst + i) % C];
          }));
  };
  [&]<int... v>(std::integer_sequence<int, v...>) __attribute__((always_inline)) {
    (store_vector.template operator()<v>(), ...);
  }(std::make_integer_sequence<int, kVectors>());
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < C; ++j) {
      const float value = values[i * C + j];
      t.c[i * t.ldc + j] = t.bias ? value + t.bias[j] : value;
    }
  }
}

template <int R, int C, typename B>
void dots_of(const Dots<B>& t) {
  Widest sums[R][C];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sums[i][j] = spread<Widest>(0);
  }
  auto step = [&](auto load_a, auto load_b) __attribute__((always_inline)) {
    Widest x[R];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) x[i] = load_a(t.a + i * t.a_row);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      const Widest y = load_b(t.b + j * t.b_col);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) sums[i][j] = fmadd(x[i], y, sums[i][j]);
    }
  };
  int64_t p = 0;
  for (; p + kLanes <= t.k; p += kLanes) {
    // Hardware prefetching stops at page boundaries, so the next columns are prefetched here.
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) __builtin_prefetch(t.b + (C + j) * t.b_col + p);
    step([p](const float* x) __attribute__((always_inline)) { return load<Widest>(x + p); },
         [p](auto* y)
             __attribute__((always_inline)) { return B::template load_all<Widest>(y + p); });
  }
  if (p < t.k) {
    const Mask mask = first_lanes(t.k - p);
    step([p, mask](const float* x) __attribute__((always_inline)) { return load(x + p, mask); },
         [p, &t](auto* y) __attribute__((always_inline)) { return B::load_first(y + p, t.k - p); });
  }
  store_dots(t, sums);
}

// Returns the product of two rows of k elements as floats.
template <typename B>
float dot(const uint16_t* a, const uint16_t* b, int64_t k) {
  Widest sum{};
  for (int64_t p = 0; p < k; p += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, k - p);
    sum = fmadd(B::load_first(a + p, count), B::load_first(b + p, count), sum);
  }
  return sum_of(sum);
}

// Does the same for bfloat16 in pairs of neighbours. An operand with denormals is multiplied again,
// as floats.
template <int R, int C>
void pair_dots_of(const Dots<Elements<Element::kBfloat>, uint16_t>& t) {
  using B = Elements<Element::kBfloat>;
  Widest sums[R][C];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sums[i][j] = spread<Widest>(0);
  }
  DenormalSearch denormals;
  auto step = [&](auto load_pairs) __attribute__((always_inline)) {
    WidestHalves x[R];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) x[i] = load_pairs(t.a + i * t.a_row);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      const WidestHalves y = load_pairs(t.b + j * t.b_col);
      denormals.see(y);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        sums[i][j] =
            add_products(reinterpret_cast<Widest>(x[i]), reinterpret_cast<Widest>(y), sums[i][j]);
      }
    }
  };
  int64_t p = 0;
  for (; p + 2 * kLanes <= t.k; p += 2 * kLanes) {
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) __builtin_prefetch(t.b + (C + j) * t.b_col + p);
    step([p](const uint16_t* x) __attribute__((always_inline)) { return load_halves(x + p); });
  }
  if (p < t.k) {
    const int64_t rest = t.k - p;
    step([p, rest](const uint16_t* x)
             __attribute__((always_inline)) { return load_halves(x + p, rest); });
  }
  if (!denormals.found() && !t.denormal_a) return store_dots(t, sums);
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < C; ++j) {
      const float value = dot<B>(t.a + i * t.a_row, t.b + j * t.b_col, t.k);
      t.c[i * t.ldc + j] = t.bias ? value + t.bias[j] : value;
    }
  }
}

template <int R, int C, typename B>
void dots_of(const Dots<B, uint16_t>& t) {
  pair_dots_of<R, C>(t);
}

template <int R, typename B, typename A>
void dot_rows_of(int64_t n, Dots<B, A> t) {
  constexpr int kWide = dot_columns(R);
  int64_t j = 0;
  auto advance = [&](int64_t by) {
    j += by, t.b += by * t.b_col, t.c += by;
    if (t.bias) t.bias += by;
  };
  while (j + kWide <= n) dots_of<R, kWide>(t), advance(kWide);
  while (j < n) dots_of<R, 1>(t), advance(1);
}

template <typename B, typename A, int... R>
void dot_rows(std::integer_sequence<int, R...>, int64_t rows, int64_t n, const Dots<B, A>& t) {
  static constexpr void (*kRows[])(int64_t, Dots<B, A>) = {dot_rows_of<R + 1, B, A>...};
  kRows[rows - 1](n, t);
}

template <typename B, typename A = float>
void by_dots_of(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
                const float* bias, float* c, int64_t ldc) {
  bool denormal_a = false;
  if constexpr (std::is_same_v<A, uint16_t>) {
    DenormalSearch denormals;
    for (int64_t i = 0; i < m; ++i) search(denormals, a.from(i, 0).as<uint16_t>(), k);
    denormal_a = denormals.found();
  }
  for (int64_t j = 0; j < n; j += kDotColumns) {
    const int64_t width = std::min(kDotColumns, n - j);
    for (int64_t i = 0; i < m;) {
      const int64_t rows = std::min(m - i, kDotRows);
      dot_rows<B, A>(std::make_integer_sequence<int, kDotRows>(), rows, width,
                     {.a = a.from(i, 0).template as<A>(),
                      .a_row = a.row,
                      .b = b.from(0, j).template as<typename B::Stored>(),
                      .b_col = b.col,
                      .bias = bias ? bias + j : nullptr,
                      .c = c + i * ldc + j,
                      .ldc = ldc,
                      .k = k,
                      .denormal_a = denormal_a});
      i += rows;
    }
  }
}

template <bool enabled>
void by_pair_dots(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
                  const float* bias, float* c, int64_t ldc) {
  if constexpr (enabled) {
    by_dots_of<Elements<Element::kBfloat>, uint16_t>(m, n, k, a, b, bias, c, ldc);
  }
}

inline void by_dots(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
                    const float* bias, float* c, int64_t ldc) {
  const auto run = a.element == Element::kBfloat  ? by_pair_dots<kMultipliesPairs>
                   : b.element == Element::kFloat ? by_dots_of<Elements<Element::kFloat>>
                   : b.element == Element::kHalf  ? by_dots_of<Elements<Element::kHalf>>
                                                  : by_dots_of<Elements<Element::kBfloat>>;
  run(m, n, k, a, b, bias, c, ldc);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
