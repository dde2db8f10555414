// Maps of the channels of a tensor in memory: of rows of channels, of which a few vectors are taken
// at a time, or of planes. A plane has the pixels of an image that belong to a channel.
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

// Vectors of K terms, or numbers, of the same channels.
template <size_t K>
struct Terms {
  Widest of[K];
};
// Vectors of channels that are taken together where each needs several registers.
constexpr int kManyVectors = kRegisters >= 32 ? 4 : 2;

// The part of a tensor that begins at an address: of rows of channels, or of one plane.
struct ChannelBlock {
  int64_t rows = 0, channels = 0;
  int64_t step = 0, result_step = 0;  // between rows of operands, and of the result
  int64_t pixels = 0;                 // of a plane
};

// Computes y[i] = f(numbers, x[i]...) for the pixels of a plane.
template <size_t N, typename Y, typename F, typename... X>
[[gnu::flatten]] void map_plane(int64_t pixels, Y* y, const std::array<const float*, N>& numbers,
                                F f, const X*... x) {
  Terms<N> number;
  for (size_t k = 0; k < N; ++k) number.of[k] = spread<Widest>(*numbers[k]);
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i + kLanes <= pixels; i += kLanes) {
    store_channels<true>(y + i, kLanes, f(number, load_channels<true>(x + i, kLanes)...));
  }
  if (i == pixels) return;
  const int64_t rest = pixels - i;
  store_channels<false>(y + i, rest, f(number, load_channels<false>(x + i, rest)...));
}

// Computes y[row, c] = f(numbers[c], x[row, c]...) for the rows and channels of a block. The
// numbers k of all channels begin at numbers[k].
template <size_t N, typename Y, typename F, typename... X>
[[gnu::flatten]] void map_channels(const ChannelBlock& block, Y* y,
                                   const std::array<const float*, N>& numbers, F f, const X*... x) {
  if (block.pixels > 0) return map_plane(block.pixels, y, numbers, f, x...);
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
