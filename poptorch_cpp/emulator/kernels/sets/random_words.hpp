// The random words of blocks of elements, kRounded in each row. The elements' numbers are
// neighbours along the rows, or down the columns: a hash is found once for sixteen neighbours.
#pragma once

#include "emulator/kernels/sets/round_at_random.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Returns the multipliers of pairs of elements, by their number in a block.
[[gnu::always_inline]] inline WidestWords multipliers_of(WidestWords pairs) {
#ifdef __AVX2__
  WidestWords all;
  std::memcpy(&all, reference::kMultipliers, sizeof(all));
  return permuted(all, pairs);
#else
  WidestWords multipliers;
  for (int k = 0; k < kLanes; ++k) multipliers[k] = reference::kMultipliers[pairs[k]];
  return multipliers;
#endif
}

// Words of rows that begin at the numbers first, first + step, ...
class RowWords {
 public:
  static constexpr int64_t kRows = 32;  // at most

  RowWords(uint32_t first, uint32_t step, int64_t rows, const uint32_t* key)
      : first_(first),
        step_(step),
        whole_blocks_(first % reference::kBlockElements == 0 &&
                      step % reference::kBlockElements == 0) {
    for (uint32_t i = 0; i < rows; i += kLanes) {
      const WidestWords block = ((lane_numbers() + i) * step + first) / reference::kBlockElements;
      for (uint32_t next = 0; next < kBlocks; ++next) {
        const WidestWords hashes = reference::block_hash(block + next, key[0], key[1]);
        std::memcpy(hashes_[next] + i, &hashes, sizeof(hashes));
      }
    }
  }
  [[gnu::always_inline]] WidestWords row(int64_t i) const {
    if (whole_blocks_) return of_blocks(i);
    const uint32_t within = (first_ + static_cast<uint32_t>(i) * step_) % reference::kBlockElements;
    const WidestWords words = pairs(i, within / 2);
    if (within % 2 == 0) return words;
    return words >> 16 | pairs(i, within / 2 + 1) << 16;
  }

 private:
  static constexpr int kBlocks = reference::kBlocksOfMultipliers;

  // Returns the words of a row that begins with a block.
  [[gnu::always_inline]] WidestWords of_blocks(int64_t i) const {
    WidestWords multipliers, hashes = WidestWords{} + hashes_[0][i];
    std::memcpy(&multipliers, reference::kMultipliers, sizeof(multipliers));
#ifdef __AVX512F__
    hashes = spread_pair(hashes_[0][i], hashes_[1][i]);
#endif
    return reference::rounding_word(hashes, multipliers);
  }
  // Returns the words of pairs of elements from a pair of the row's first block on.
  [[gnu::always_inline]] WidestWords pairs(int64_t i, uint32_t first) const {
    constexpr uint32_t kPairs = reference::kBlockElements / 2;
    WidestWords multipliers, hashes = WidestWords{} + hashes_[0][i];
    std::memcpy(&multipliers, reference::kMultipliers + first, sizeof(multipliers));
    const WidestWords pair = lane_numbers() + first;
    hashes = pair >= kPairs ? WidestWords{} + hashes_[1][i] : hashes;
    hashes = pair >= 2 * kPairs ? WidestWords{} + hashes_[2][i] : hashes;
    return reference::rounding_word(hashes, multipliers);
  }

  uint32_t first_, step_;
  bool whole_blocks_;
  alignas(64) uint32_t hashes_[kBlocks][kRows];
};

// Words of columns that begin at the numbers first, first + step, ...
class ColumnWords {
 public:
  ColumnWords(uint32_t first, uint32_t step, const uint32_t* key)
      : lanes_{{lane_numbers() * step + first, key},
               {(lane_numbers() + kLanes) * step + first, key}},
        even_(first % 2 == 0 && step % 2 == 0) {}
  // Finds the words of the next two rows.
  [[gnu::always_inline]] void next(WidestWords& row, WidestWords& row_after) {
    constexpr std::make_integer_sequence<int, 2 * kLanes> kAll;
    const auto a = reinterpret_cast<Halves>(lanes_[0].next(even_));
    const auto b = reinterpret_cast<Halves>(lanes_[1].next(even_));
    row = reinterpret_cast<WidestWords>(every_other<0>(kAll, a, b));
    row_after = reinterpret_cast<WidestWords>(every_other<1>(kAll, a, b));
  }
  // Returns the words of the first kLanes columns of the next row, and those of the row after it.
  [[gnu::always_inline]] WidestWords next_of_first() {
    constexpr std::make_integer_sequence<int, kLanes> kAll;
    return reinterpret_cast<WidestWords>(
        row_by_row(kAll, reinterpret_cast<Halves>(lanes_[0].next(even_))));
  }

 private:
  using Halves = uint16_t __attribute__((vector_size(sizeof(Widest))));

  template <int first, int... I>
  static Halves every_other(std::integer_sequence<int, I...>, Halves a, Halves b) {
    return __builtin_shufflevector(a, b, (2 * I + first)...);
  }

  template <int... I>
  static Halves row_by_row(std::integer_sequence<int, I...>, Halves pairs) {
    return __builtin_shufflevector(pairs, pairs, 2 * I..., (2 * I + 1)...);
  }

  // The columns of a vector. They begin anywhere in their blocks, so that sixteen rows need the
  // hashes of two blocks.
  class Lanes {
   public:
    Lanes(WidestWords at, const uint32_t* key)
        : at_(at), begin_(at % kBlock), key_{key[0], key[1]} {
      hash_ = hashes(0);
      next_hash_ = hashes(1);
    }
    // Returns words with the bits of the next row in their lower halves and those of the row after
    // it in their upper halves.
    [[gnu::always_inline]] WidestWords next(bool even) {
      if (taken_ == kBlock) {
        hash_ = std::exchange(next_hash_, hashes(1));
        taken_ = 0;
      }
      WidestWords pair = words(at_ % kBlock);
      if (!even) {
        const WidestWords straddling = pair >> 16 | words((at_ + 1) % kBlock) << 16;
        pair = at_ % 2 == 0 ? pair : straddling;
      }
      at_ += 2;
      taken_ += 2;
      return pair;
    }

   private:
    static constexpr uint32_t kBlock = reference::kBlockElements;

    [[gnu::always_inline]] WidestWords hashes(uint32_t after) const {
      return reference::block_hash(at_ / kBlock + after, key_[0], key_[1]);
    }
    [[gnu::always_inline]] WidestWords words(WidestWords within) const {
      const WidestWords hash = within < begin_ ? next_hash_ : hash_;
      return reference::rounding_word(hash, multipliers_of(within / 2));
    }

    WidestWords at_, begin_, hash_, next_hash_;
    uint32_t key_[2], taken_ = 0;
  };

  Lanes lanes_[2];
  bool even_;
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
