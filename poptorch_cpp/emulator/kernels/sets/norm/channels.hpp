// Loops over rows of channels ([rows, channels] in memory). They take a few vectors of channels at
// a time, whose sums and numbers stay in registers from row to row.
#pragma once

#include <array>

#include "emulator/kernels/sets/rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Loads or stores a vector of channels, or its first `count` lanes.
template <bool whole, typename T>
[[gnu::always_inline]] inline Widest load_channels(const T* x, int64_t count) {
  if constexpr (whole) return load_lanes(x);
  return load_lanes(x, count);
}
template <bool whole, typename T>
[[gnu::always_inline]] inline void store_channels(T* y, int64_t count, Widest v) {
  if constexpr (whole) return store_lanes(y, v);
  T held[kLanes];
  store_lanes(held, v);
  std::memcpy(y, held, static_cast<size_t>(count) * sizeof(T));
}

// Calls run.operator()<vectors, whole>(channel, count) for all channels: for `vectors` whole
// vectors of them, for one, and for the first `count` lanes of one.
template <int vectors, typename Run>
[[gnu::always_inline]] inline void for_channels(int64_t channels, const Run& run) {
  int64_t c = 0;
  for (; c + vectors * kLanes <= channels; c += vectors * kLanes) {
    run.template operator()<vectors, true>(c, kLanes);
  }
  for (; c + kLanes <= channels; c += kLanes) run.template operator()<1, true>(c, kLanes);
  if (c < channels) run.template operator()<1, false>(c, channels - c);
}

// The sum of vectors of floats, in double.
class WideSum {
 public:
  [[gnu::always_inline]] void add(Widest v) {
    WidestDoubles low, high;
    to_doubles(v, low, high);
    low_ += low;
    high_ += high;
  }
  void add_to(double* sums, int64_t count) const {
    double lanes[kLanes];
    std::memcpy(lanes, &low_, sizeof(low_));
    std::memcpy(lanes + kLanes / 2, &high_, sizeof(high_));
    for (int64_t i = 0; i < count; ++i) sums[i] += lanes[i];
  }

 private:
  WidestDoubles low_{}, high_{};
};

// Terms of K sums.
template <size_t K>
struct Terms {
  Widest of[K];
};
template <size_t K>
[[gnu::always_inline]] inline Terms<K> operator+(const Terms<K>& a, const Terms<K>& b) {
  Terms<K> sum;
#pragma GCC unroll 4
  for (size_t k = 0; k < K; ++k) sum.of[k] = a.of[k] + b.of[k];
  return sum;
}

// Vectors of channels that are taken together where each needs several registers.
constexpr int kManyVectors = kRegisters >= 32 ? 4 : 2;
// A block of rows is summed before it is added to the sums of all.
constexpr int64_t kSummedRows = 64;

// sums[k * channels + c] += Σ term(numbers[c], x[row, c]...).of[k] over the rows, in double. The
// terms of `together` rows, 1 or 4, are summed as floats.
template <size_t K, int together, typename Term, typename... X>
[[gnu::flatten]] void sum_channels(Range rows, int64_t channels, double* sums, const float* numbers,
                                   Term term, const X*... x) {
  constexpr int kVectors = K > 1 ? kManyVectors / 2 : kManyVectors;
  for (int64_t r = rows.begin; r < rows.end; r += kSummedRows) {
    const int64_t end = std::min(r + kSummedRows, rows.end);
    for_channels<kVectors>(channels, [&]<int vectors, bool whole>(
                                         int64_t c, int64_t count) __attribute__((always_inline)) {
      WideSum totals[K][vectors];
      Widest number[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        number[v] = load_channels<whole>(numbers + c + v * kLanes, count);
      }
      auto terms = [&](int64_t row, int v) __attribute__((always_inline)) {
        const int64_t at = row * channels + c + v * kLanes;
        return term(number[v], load_channels<whole>(x + at, count)...);
      };
      auto add = [&](const Terms<K>& sum, int v) __attribute__((always_inline)) {
#pragma GCC unroll 2
        for (size_t k = 0; k < K; ++k) totals[k][v].add(sum.of[k]);
      };
      int64_t row = r;
#pragma GCC unroll 1
      for (; together == 4 && row + 4 <= end; row += 4) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          add((terms(row, v) + terms(row + 1, v)) + (terms(row + 2, v) + terms(row + 3, v)), v);
        }
      }
#pragma GCC unroll 1
      for (; row < end; ++row) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) add(terms(row, v), v);
      }
      for (size_t k = 0; k < K; ++k) {
        double* to = sums + static_cast<int64_t>(k) * channels + c;
        for (int v = 0; v < vectors; ++v) totals[k][v].add_to(to + v * kLanes, count);
      }
    });
  }
}

// The part of a tensor of rows of channels that begins at an address.
struct ChannelBlock {
  int64_t rows, channels;
  int64_t step, result_step;  // between rows of operands, and of the result
};

// Computes y[row, c] = f(numbers[c], x[row, c]...) for the rows and channels of a block. The
// numbers k of all channels begin at numbers[k].
template <size_t N, typename Y, typename F, typename... X>
[[gnu::flatten]] void map_channels(const ChannelBlock& block, Y* y,
                                   const std::array<const float*, N>& numbers, F f, const X*... x) {
  constexpr int kVectors = N > 2 ? kManyVectors : 4;
  const int64_t rows = block.rows, step = block.step, result_step = block.result_step;
  for_channels<kVectors>(block.channels, [&]<int vectors, bool whole>(
                                             int64_t c,
                                             int64_t count) __attribute__((always_inline)) {
    Terms<N> number[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
#pragma GCC unroll 4
      for (size_t k = 0; k < N; ++k) {
        number[v].of[k] = load_channels<whole>(numbers[k] + c + v * kLanes, count);
      }
    }
#pragma GCC unroll 1
    for (int64_t row = 0; row < rows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const int64_t at = c + v * kLanes;
        store_channels<whole>(y + row * result_step + at, count,
                              f(number[v], load_channels<whole>(x + row * step + at, count)...));
      }
    }
  });
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
