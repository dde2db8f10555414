// The loops over channels of depthwise convolutions of halves, which they convert in registers.
// The sums of a few output pixels are kept in registers, a block of channels at a time.
#include <algorithm>

#include "emulator/kernels/sets/half_endings.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/random_endings.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

constexpr int kVectorsOfHalves = 2;  // of channels
constexpr int64_t kHeldChannels = kVectorsOfHalves * kLanes;
constexpr int kPixelsOfHalves = kRegisters == 32 ? 6 : 2;  // at most; each has a sum and a total

// A block of `Vectors` vectors of channels, from channel c on, of `Pixels` pixels from number p on.
// The last vector has `count` channels; a whole one has kLanes.
template <Element element, int Pixels, int Vectors, bool whole>
struct Block {
  using E = Elements<element>;
  const HalfDepthwiseRun& r;
  int64_t p, c, count;

  [[gnu::always_inline]] Widest floats(const float* x) const {
    return whole ? load<Widest>(x) : load(x, first_lanes(count));
  }
  [[gnu::always_inline]] Widest halves(const uint16_t* x) const {
    return whole ? E::template load_all<Widest>(x) : E::load_first(x, count);
  }

  // Adds the products of the taps [t, end) to the sums.
  [[gnu::always_inline]] void add_taps(int t, int end, Widest (&sums)[Pixels][Vectors]) const {
    const uint16_t* x = r.x + p * r.step + c;
    const float* w = r.w + c;
    for (; t < end; ++t) {
      Widest weights[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) weights[v] = floats(w + r.with[t] + kLanes * v);
      const uint16_t* from = x + r.from[t];
#pragma GCC unroll 6
      for (int i = 0; i < Pixels; ++i, from += r.step) {
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) {
          sums[i][v] = fmadd(halves(from + kLanes * v), weights[v], sums[i][v]);
        }
      }
    }
  }

  template <typename Ender>
  void run(const Ender& e, int64_t row_step) const {
    Widest totals[Pixels][Vectors], bias[Vectors] = {};
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      if (r.bias) bias[v] = floats(r.bias + c + kLanes * v);
#pragma GCC unroll 6
      for (int i = 0; i < Pixels; ++i) totals[i][v] = r.sums == 1 ? bias[v] : Widest{};
    }
    add_taps(0, r.ends[0], totals);
    for (int sum = 1; sum < r.sums; ++sum) {
      if (r.ends[sum] == r.ends[sum - 1]) continue;
      Widest sums[Pixels][Vectors] = {};
      add_taps(r.ends[sum - 1], r.ends[sum], sums);
#pragma GCC unroll 6
      for (int i = 0; i < Pixels; ++i) {
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) totals[i][v] = totals[i][v] + sums[i][v];
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      const int64_t column = c + kLanes * v;
      const auto chain = e.template chain<whole>(column, count);
#pragma GCC unroll 6
      for (int i = 0; i < Pixels; ++i) {
        Widest sum = totals[i][v];
        if (r.sums > 1 && r.bias) sum = bias[v] + sum;
        e.template end<whole>(sum, chain, (p + i) * row_step + column, count);
      }
    }
  }
};

// Stores the sums of a block of pixels and channels, in whole vectors.
struct SumStore {
  float* held;
  int64_t first;  // the number of the block's first element

  struct Chain {};
  template <bool whole>
  Chain chain(int64_t, int64_t) const {
    return {};
  }
  template <bool whole>
  [[gnu::always_inline]] void end(Widest sum, Chain, int64_t i, int64_t) const {
    store(held + (i - first), sum);
  }
};

template <Element element, int Pixels>
void group(const HalfDepthwiseRun& r, int64_t p, const HalfEnding& ending) {
  const HalfEnder<element> e(ending);
  const int64_t row_step = ending.row_step;
  int64_t c = 0;
  for (; c + kVectorsOfHalves * kLanes <= r.channels; c += kVectorsOfHalves * kLanes) {
    Block<element, Pixels, kVectorsOfHalves, true>{r, p, c, kLanes}.run(e, row_step);
  }
  if (c + kLanes <= r.channels) {
    Block<element, Pixels, 1, true>{r, p, c, kLanes}.run(e, row_step);
    c += kLanes;
  }
  for (int64_t i = 0; c < r.channels && i < Pixels; ++i) {
    Block<element, 1, 1, false>{r, p + i, c, r.channels - c}.run(e, row_step);
  }
}

// Stores the sums of `Pixels` pixels from number p on, of at most kHeldChannels from channel c on,
// in rows of as many.
template <Element element, int Pixels>
void hold_group(const HalfDepthwiseRun& r, int64_t p, int64_t c, float* held) {
  const SumStore sums{held, p * kHeldChannels + c};
  int64_t left = std::min(r.channels - c, kHeldChannels);
  if (left == kHeldChannels) {
    return Block<element, Pixels, kVectorsOfHalves, true>{r, p, c, kLanes}.run(sums, kHeldChannels);
  }
  if (left >= kLanes) {
    Block<element, Pixels, 1, true>{r, p, c, kLanes}.run(sums, kHeldChannels);
    c += kLanes, left -= kLanes;
  }
  for (int64_t i = 0; left > 0 && i < Pixels; ++i) {
    Block<element, 1, 1, false>{r, p + i, c, left}.run(sums, kHeldChannels);
  }
}

// A hash of the random bits serves many pixels.
template <Element element, int... P>
void by_blocks(std::integer_sequence<int, P...>, const HalfDepthwiseRun& r, int64_t pixels,
               const HalfEnding& e) {
  static constexpr decltype(&hold_group<element, 1>) kGroups[] = {hold_group<element, P + 1>...};
  alignas(64) float held[RowWords::kRows * kHeldChannels];
  for (int64_t p = 0; p < pixels; p += RowWords::kRows) {
    const int64_t rows = std::min(pixels - p, RowWords::kRows);
    for (int64_t c = 0; c < r.channels; c += kHeldChannels) {
      for (int64_t i = 0; i < rows; i += kPixelsOfHalves) {
        kGroups[std::min<int64_t>(rows - i, kPixelsOfHalves) - 1](r, p + i, c,
                                                                  held + i * kHeldChannels);
      }
      end_at_random<element>(e.from(p, c), held, kHeldChannels, rows,
                             std::min(r.channels - c, kHeldChannels));
    }
  }
}

template <Element element, int... P>
void by_groups(std::integer_sequence<int, P...>, const HalfDepthwiseRun& r, int64_t pixels,
               const HalfEnding& e) {
  static constexpr decltype(&group<element, 1>) kGroups[] = {group<element, P + 1>...};
  for (int64_t p = 0; p < pixels; p += kPixelsOfHalves) {
    kGroups[std::min<int64_t>(pixels - p, kPixelsOfHalves) - 1](r, p, e);
  }
}

}  // namespace

void depthwise_halves(const HalfDepthwiseRun& r, int64_t pixels, const HalfEnding& e) {
  constexpr std::make_integer_sequence<int, kPixelsOfHalves> kCounts;
  const bool half = e.element == Element::kHalf;
  if (e.rounding.at_random) {
    half ? by_blocks<Element::kHalf>(kCounts, r, pixels, e)
         : by_blocks<Element::kBfloat>(kCounts, r, pixels, e);
  } else {
    half ? by_groups<Element::kHalf>(kCounts, r, pixels, e)
         : by_groups<Element::kBfloat>(kCounts, r, pixels, e);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
