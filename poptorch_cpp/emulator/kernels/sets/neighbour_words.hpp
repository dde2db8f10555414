// The random words of neighbouring elements: two of them use a word. See
// reference/rounding_bits.hpp.
#pragma once

#include <algorithm>
#include <cstring>

#include "emulator/kernels/simd/simd.hpp"
#include "reference/rounding_bits.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Elements that are rounded together, by a vector of words.
constexpr int kRounded = 2 * kLanes;
// The index of the first of them is a multiple of this.
constexpr int64_t kAligned = std::min<int64_t>(reference::kBlockElements, kRounded);

[[gnu::always_inline]] inline WidestWords lane_numbers() {
  WidestWords numbers;
  for (int k = 0; k < kLanes; ++k) numbers[k] = static_cast<uint32_t>(k);
  return numbers;
}

// Returns the words of kRounded elements.
[[gnu::always_inline]] inline WidestWords random_words(uint32_t index, const uint32_t* key) {
  const uint32_t block = index / reference::kBlockElements;
  const uint32_t hash = reference::block_hash(block, key[0], key[1]);
  const uint32_t word = index % reference::kBlockElements / 2;
  WidestWords multipliers;
  std::memcpy(&multipliers, reference::kMultipliers + word, sizeof(multipliers));
#ifdef __AVX512F__
  const WidestWords hashes = spread_pair(hash, reference::block_hash(block + 1, key[0], key[1]));
#else
  const WidestWords hashes = WidestWords{} + hash;
#endif
  return reference::rounding_word(hashes, multipliers);
}

// The words of a run of blocks, whose hashes are found together.
class BlockWords {
#ifdef __AVX512F__
  static constexpr int kBlocks = kLanes;
#else
  static constexpr int kBlocks = kLanes - 1;  // a run that begins within a block needs one more
#endif

 public:
  static constexpr int64_t kElements = kBlocks * reference::kBlockElements;

  // The first element has the number `index`, a multiple of kAligned.
  [[gnu::always_inline]] BlockWords(uint32_t index, const uint32_t* key)
      : hashes_(reference::block_hash(lane_numbers() + index / reference::kBlockElements, key[0],
                                      key[1])),
        within_(index % reference::kBlockElements) {}
  // Returns the words of the next kRounded elements.
  [[gnu::always_inline]] WidestWords next() {
    WidestWords hashes, multipliers;
#ifdef __AVX512F__
    hashes = permuted(hashes_, blocks_);
    blocks_ += kRounded / reference::kBlockElements;
    std::memcpy(&multipliers, reference::kMultipliers, sizeof(multipliers));
#else
    hashes = WidestWords{} + hashes_[within_ / reference::kBlockElements];
    const uint32_t word = within_ % reference::kBlockElements / 2;
    std::memcpy(&multipliers, reference::kMultipliers + word, sizeof(multipliers));
    within_ += kRounded;
#endif
    return reference::rounding_word(hashes, multipliers);
  }

 private:
  const WidestWords hashes_;
  [[maybe_unused]] WidestWords blocks_ = lane_numbers() / (reference::kBlockElements / 2);
  [[maybe_unused]] uint32_t within_;
};

// Calls use(i, words) for all kRounded elements from i on that are below n, in steps of kRounded.
// Element 0 has the number `index`, a multiple of kAligned. Returns the first element that is left.
template <typename Use>
[[gnu::always_inline]] inline int64_t with_words(int64_t n, uint32_t index, const uint32_t* key,
                                                 Use use) {
  int64_t i = 0;
  while (i + kRounded <= n) {
    BlockWords words(index + static_cast<uint32_t>(i), key);
    const int64_t count = std::min(n - i, BlockWords::kElements) / kRounded * kRounded;
#pragma GCC unroll 1
    for (int64_t k = 0; k < count; k += kRounded) use(i + k, words.next());
    i += count;
  }
  return i;
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
