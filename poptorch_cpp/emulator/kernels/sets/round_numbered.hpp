// Rounds elements at random whose numbers are not neighbours: those of channels-last tensors. Rows
// of such elements lie next to each other, and the numbers of each column are neighbours.
#pragma once

#include "emulator/kernels/sets/random_words.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

using LaneHalves = uint16_t __attribute__((vector_size(2 * kLanes)));

// Returns reference::rounding_bits() of kLanes elements whose numbers are `step` apart.
[[gnu::always_inline]] inline LaneHalves bits_apart(uint32_t index, uint32_t step,
                                                    const uint32_t* key) {
  const WidestWords at = lane_numbers() * step + index;
  const WidestWords hash = reference::block_hash(at / reference::kBlockElements, key[0], key[1]);
  const WidestWords multipliers = multipliers_of(at % reference::kBlockElements / 2);
  const WidestWords word = reference::rounding_word(hash, multipliers);
  return __builtin_convertvector((word >> (at % 2 * 16)) & 0xffffu, LaneHalves);
}

// Rounds the first `count` of kRounded elements.
template <typename To, typename Y>
[[gnu::always_inline]] inline void round_first(const float* x, Y* y, int64_t count,
                                               WidestWords words) {
  if (count == kRounded) return round_by_words<To>(x, y, words);
  float held[kRounded] = {};
  Y rounded[kRounded];
  std::copy_n(x, count, held);
  round_by_words<To>(held, rounded, words);
  std::copy_n(rounded, count, y);
}

// Rounds a row, each of whose elements needs a separate hash.
template <typename To, typename Y>
void round_row(const float* x, Y* y, int64_t n, uint32_t index, uint32_t step,
               const uint32_t* key) {
  for (int64_t i = 0; i < n; i += kRounded) {
    const uint32_t begin = index + static_cast<uint32_t>(i) * step;
    const LaneHalves bits[] = {bits_apart(begin, step, key),
                               bits_apart(begin + kLanes * step, step, key)};
    WidestWords words;
    std::memcpy(&words, bits, sizeof(words));
    round_first<To>(x + i, y + i, std::min<int64_t>(n - i, kRounded), words);
  }
}

// Rounds rows of n elements. A hash serves the rows of a column.
template <typename To, typename Y>
void round_rows(const float* x, Y* y, int64_t n, int64_t rows, uint32_t index, uint32_t step,
                const uint32_t* key) {
  for (int64_t c = 0; c < n; c += kRounded) {
    const int64_t count = std::min<int64_t>(n - c, kRounded);
    ColumnWords words(index + static_cast<uint32_t>(c) * step, step, key);
#pragma GCC unroll 1
    for (int64_t i = 0; i < rows; i += 2) {
      const int64_t at = i * n + c;
      WidestWords row, row_after;
      words.next(row, row_after);
      round_first<To>(x + at, y + at, count, row);
      if (i + 1 < rows) round_first<To>(x + at + n, y + at + n, count, row_after);
    }
  }
}

// Rounds n elements of a step, which begin with its element i: whole rows, if it has several.
template <typename To, typename Y>
void round_numbered(const MicroArgs& a, const float* x, Y* y, int64_t i, int64_t n) {
  const uint32_t step = a.index_step;
  if (step == 1) return round_elements<To>(x, y, n, a.index + static_cast<uint32_t>(i), a.key);
  if (a.row == 0) {
    const uint32_t index = a.index + static_cast<uint32_t>(i) * step;
    return round_row<To>(x, y, n, index, step, a.key);
  }
  const int64_t rows = n / a.row;
  round_rows<To>(x, y, a.row, rows, a.index + static_cast<uint32_t>(i / a.row), step, a.key);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
