// Sums by channel of a tensor in memory, in double. Rows of channels and planes give the same bits.
#pragma once

#include <algorithm>

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/norm/channels.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// The sum of vectors of floats, in double.
class WideSum {
 public:
  [[gnu::always_inline]] void add(Widest v) { *this += WideSum(v); }
  [[gnu::always_inline]] void add(Widest a, Widest b, Widest c, Widest d) {
    WideSum sum(a), other(c);
    sum += WideSum(b);
    other += WideSum(d);
    sum += other;
    *this += sum;
  }
  WideSum() = default;
  void copy_to(double* lanes) const {
    std::memcpy(lanes, &low_, sizeof(low_));
    std::memcpy(lanes + kLanes / 2, &high_, sizeof(high_));
  }

 private:
  [[gnu::always_inline]] explicit WideSum(Widest v) { to_doubles(v, low_, high_); }
  [[gnu::always_inline]] void operator+=(const WideSum& other) {
    low_ += other.low_;
    high_ += other.high_;
  }

  WidestDoubles low_{}, high_{};
};

template <size_t K>
[[gnu::always_inline]] inline Terms<K> operator+(const Terms<K>& a, const Terms<K>& b) {
  Terms<K> sum;
#pragma GCC unroll 4
  for (size_t k = 0; k < K; ++k) sum.of[k] = a.of[k] + b.of[k];
  return sum;
}

// Sets the terms that follow the first `count` lanes to 0.
template <size_t K>
void keep_first(Terms<K>& terms, int64_t count) {
  for (Widest& term : terms.of) {
    float lanes[kLanes];
    store(lanes, term);
    std::fill(lanes + std::max<int64_t>(count, 0), lanes + kLanes, 0.0f);
    term = load<Widest>(lanes);
  }
}

// The sums of K terms. The terms of `together` rows, 1 or 4, are first summed as floats.
template <size_t K, int together>
struct WideSums {
  WideSum of[K];

  [[gnu::always_inline]] void add(const Terms<K> (&terms)[4]) {
    const auto [a, b, c, d] = terms;
    if constexpr (together == 4) {
      const Terms<K> sum = (a + b) + (c + d);
#pragma GCC unroll 2
      for (size_t k = 0; k < K; ++k) of[k].add(sum.of[k]);
    } else {
#pragma GCC unroll 2
      for (size_t k = 0; k < K; ++k) of[k].add(a.of[k], b.of[k], c.of[k], d.of[k]);
    }
  }
};

// Rows whose numbers differ by a multiple of this are summed together, then the sums of all. A
// block of rows has four of each.
constexpr int64_t kSumsApart = 16, kSummedRows = 4 * kSumsApart;

// Adds kSumsApart sums of `length` numbers pairwise.
template <int length>
void fold(double* sums) {
  for (int64_t half = kSumsApart * length / 2; half >= length; half /= 2) {
    for (int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
}

// sums[k * channels + c] += Σ term(numbers[c], x[row, c]...).of[k] over the rows.
template <size_t K, int together, typename Term, typename... X>
[[gnu::flatten]] void sum_rows(Range rows, int64_t channels, double* sums, const float* numbers,
                               Term term, const X*... x) {
  for_channels<kManyVectors>(channels, [&]<int vectors, bool whole>(
                                           int64_t c,
                                           int64_t count) __attribute__((always_inline)) {
    WideSums<K, together> totals[kSumsApart][vectors];
    Widest number[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      number[v] = load_channels<whole>(numbers + c + v * kLanes, count);
    }
    auto terms_of = [&](int64_t row, int v) __attribute__((always_inline)) {
      const int64_t at = row * channels + c + v * kLanes;
      return term(number[v], load_channels<whole>(x + at, count)...);
    };
    int64_t row = rows.begin;
    for (; row + kSummedRows <= rows.end; row += kSummedRows) {
#pragma GCC unroll 1
      for (int64_t apart = 0; apart < kSumsApart; ++apart) {
        const int64_t r = row + apart;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          totals[apart][v].add({terms_of(r, v), terms_of(r + kSumsApart, v),
                                terms_of(r + 2 * kSumsApart, v), terms_of(r + 3 * kSumsApart, v)});
        }
      }
    }
    for (int64_t apart = 0; row + apart < rows.end && apart < kSumsApart; ++apart) {
      for (int v = 0; v < vectors; ++v) {
        Terms<K> terms[4] = {};
        for (int64_t i = 0, r = row + apart; r < rows.end; ++i, r += kSumsApart) {
          terms[i] = terms_of(r, v);
        }
        totals[apart][v].add(terms);
      }
    }
    for (size_t k = 0; k < K; ++k) {
      for (int v = 0; v < vectors; ++v) {
        double* to = sums + static_cast<int64_t>(k) * channels + c + v * kLanes;
        double lanes[kSumsApart * kLanes];
        for (int i = 0; i < kSumsApart; ++i) totals[i][v].of[k].copy_to(lanes + i * kLanes);
        fold<kLanes>(lanes);
        for (int64_t i = 0; i < count; ++i) to[i] += lanes[i];
      }
    }
  });
}

// A tensor [images, channels, pixels] in memory.
struct Planes {
  int64_t channels, pixels;
};

// The place of a row in the planes of a channel.
class PlaneRow {
 public:
  PlaneRow(const Planes& planes, int64_t row)
      : planes_(planes), image_(row / planes.pixels), pixel_(row % planes.pixels) {}
  void advance(int64_t rows) {
    for (pixel_ += rows; pixel_ >= planes_.pixels; pixel_ -= planes_.pixels) ++image_;
  }
  // Returns whether n rows are in one plane.
  bool are_together(int64_t n) const { return pixel_ + n <= planes_.pixels; }
  int64_t element(int64_t c) const {
    return (image_ * planes_.channels + c) * planes_.pixels + pixel_;
  }
  // Copies the values of n rows as floats.
  template <typename T>
  void copy(const T* x, int64_t c, int64_t n, float* values) const {
    PlaneRow at = *this;
    for (int64_t i = 0, length; i < n; i += length, at.advance(length)) {
      length = std::min(n - i, planes_.pixels - at.pixel_);
      const T* from = x + at.element(c);
      const float* floats = floats_of(from, length, values + i);
      if (floats != values + i) std::copy_n(floats, length, values + i);
    }
  }

 private:
  Planes planes_;
  int64_t image_, pixel_;
};

// Adds the terms of a block of rows, of which the first `count` are present.
template <size_t K, int together, int vectors, typename Term, typename... X>
[[gnu::always_inline]] inline void add_block(WideSums<K, together> (&totals)[vectors],
                                             int64_t count, Widest number, Term term,
                                             const X*... x) {
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    Terms<K> terms[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int64_t at = i * kSumsApart + v * kLanes;
      terms[i] = term(number, load_lanes(x + at)...);
      if (at + kLanes > count) [[unlikely]]
        keep_first(terms[i], count - at);
    }
    totals[v].add(terms);
  }
}

// Does what sum_rows() does.
template <size_t K, int together, typename Term, typename... X>
[[gnu::flatten]] void sum_planes(Range rows, const Planes& planes, double* sums,
                                 const float* numbers, Term term, const X*... x) {
  const PlaneRow begin(planes, rows.begin);
  for (int64_t c = 0; c < planes.channels; ++c) {
    WideSums<K, together> totals[kSumsApart / kLanes];
    const Widest number = spread<Widest>(numbers[c]);
    PlaneRow at = begin;
#pragma GCC unroll 1
    for (int64_t row = rows.begin; row < rows.end; row += kSummedRows, at.advance(kSummedRows)) {
      const int64_t count = std::min(kSummedRows, rows.end - row);
      if (count == kSummedRows && at.are_together(count)) {
        add_block(totals, kSummedRows, number, term, x + at.element(c)...);
        continue;
      }
      // Beyond the last row there may be no memory.
      auto add_copies = [&]<size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
        float held[sizeof...(X)][kSummedRows] = {};
        (at.copy(x, c, count, held[i]), ...);
        add_block(totals, count, number, term, held[i]...);
      };
      add_copies(std::index_sequence_for<X...>());
    }
    for (size_t k = 0; k < K; ++k) {
      double lanes[kSumsApart];
      for (int v = 0; v < kSumsApart / kLanes; ++v) totals[v].of[k].copy_to(lanes + v * kLanes);
      fold<1>(lanes);
      sums[static_cast<int64_t>(k) * planes.channels + c] += lanes[0];
    }
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
