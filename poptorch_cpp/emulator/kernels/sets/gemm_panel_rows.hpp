// The packed panels of a right operand, as tiles read them.
#pragma once

#include "emulator/kernels/sets/gemm_pairs.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// The rows [p, p + depth) of packed panels, as floats. Panels of halves are converted in groups:
// all row panels of a block then read the same floats.
class PanelRows {
 public:
  PanelRows(const void* packed, Element element, int64_t panel_k, int64_t p, int64_t depth)
      : packed_(static_cast<const std::byte*>(packed)),
        element_(element),
        panel_k_(panel_k),
        p_(p),
        depth_(depth) {}
  // Returns the address of column j, a multiple of kTileColumns, which loads up to a tile of the
  // columns that are left.
  const float* at(int64_t j, int64_t left) {
    const int64_t panel = j / kPanel, column = j % kPanel;
    const std::byte* from = packed_ + (panel * panel_k_ + p_) * kPanel * element_bytes(element_);
    if (element_ == Element::kFloat) return reinterpret_cast<const float*>(from) + column;
    if (column == 0) {
      const int64_t count = std::min(kGroup, (left + kPanel - 1) / kPanel);
      for (int64_t i = 0; i < count; ++i) {
        const auto* one = reinterpret_cast<const uint16_t*>(from) + i * kPanel * panel_k_;
        if (left > kTileColumns) prefetch(one + count * kPanel * panel_k_);
        panel_to_floats(element_, one, held_ + i * kPanel * depth_, depth_);
      }
    }
    return held_ + column;
  }
  // Returns the distance between the panels that at() has returned.
  int64_t panel_step() const { return kPanel * (element_ == Element::kFloat ? panel_k_ : depth_); }

  // Returns the same address of elements as they are stored.
  template <typename Stored>
  const Stored* stored(int64_t j) const {
    return reinterpret_cast<const Stored*>(packed_) + (j / kPanel * panel_k_ + p_) * kPanel;
  }

  // Returns the same address of words of pairs, which are read in place.
  const float* pairs_at(int64_t j) const { return pairs_of(j / kPanel) + j % kPanel; }
  int64_t pair_step() const { return kPanel / 2 * panel_k_; }
  // Returns whether the tile at column j has no denormals.
  bool are_normal(int64_t j, int64_t left) const {
    DenormalSearch denormals;
    const int64_t last = (j + std::min(left, kTileColumns) + kPanel - 1) / kPanel;
    for (int64_t i = j / kPanel; i < last; ++i) {
      search(denormals, reinterpret_cast<const uint16_t*>(pairs_of(i)), kPanel * depth_);
    }
    return !denormals.found();
  }

 private:
  // Loads the rows of a panel of halves into L2, while others are multiplied.
  void prefetch(const uint16_t* panel) const {
    for (int64_t i = 0; i < kPanel * depth_; i += 32) __builtin_prefetch(panel + i, 0, 2);
  }
  const float* pairs_of(int64_t panel) const {
    return reinterpret_cast<const float*>(packed_ + (panel * panel_k_ + p_) * kPanel * 2);
  }

  static constexpr int64_t kGroup = std::max<int64_t>(kTileColumns / kPanel, 1);
  const std::byte* packed_;
  Element element_;
  int64_t panel_k_, p_, depth_;
  alignas(64) float held_[kGroup * kPanel * kDepth];
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
