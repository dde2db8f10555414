// This file is compiled once for each instruction set.
#include "emulator/kernels/sets/gemm_dots.hpp"
#include "emulator/kernels/sets/gemm_pairs.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using reference::kHalfPartials;

void pack(const OperandView& b, int64_t k, int64_t n, int64_t first, int64_t last, void* packed,
          int64_t panel_k) {
  if (b.element == Element::kFloat) {
    pack_as(b, k, n, first, last, static_cast<float*>(packed), panel_k);
  } else {
    auto* panels = static_cast<uint16_t*>(packed);
    pack_as(b, k, n, first, last, panels, panel_k);
    if (!is_paired(b.element)) return;
    for (int64_t i = first; i < last; ++i) pair_panel(panels + i * kPanel * panel_k, k);
  }
}

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

void by_panels(int64_t m, int64_t n, int64_t k, const OperandView& a, const void* b,
               int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
               float* scratch, Element packed_as, const Ending* ending,
               const HalfEnding* half_ending) {
  for (int64_t top = 0; top < m; top += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, m - top);
    for (int64_t p = 0; p < k || p == 0; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      const bool last = p + kDepth >= k;
      const OperandView block = a.from(top, p);
      bool pairs = is_paired(packed_as) && a.element == packed_as && depth % 2 == 0;
      LeftBlock left;
      if (pairs) pairs = left_pairs(block, rows, depth, scratch, left);
      if (!pairs) left = left_block(block, rows, depth, scratch);
      PanelRows panels(b, packed_as, panel_k, p, depth);
      for (int64_t j = 0; j < n; j += kTileColumns) {
        if (pairs && !panels.are_normal(j, n - j)) {
          pairs = false;
          left = left_block(block, rows, depth, scratch);
        }
        const float* right = pairs ? panels.pairs_at(j) : panels.at(j, n - j);
        const int64_t panel_step = pairs ? panels.pair_step() : panels.panel_step();
        for_row_panels(rows, [&](int64_t first, int count) {
          const MatrixView panel = left.panel(first, count);
          Ending part;
          if (last && ending) part = ending->from(top + first, j);
          const Tile tile{.a = panel.data,
                          .a_row = panel.row,
                          .a_col = panel.col,
                          .b = right,
                          .b_row = kPanel,
                          .b_vector = kLanes == kPanel ? panel_step : kLanes,
                          .bias = last && bias ? bias + j : nullptr,
                          .c = c + (top + first) * ldc + j,
                          .ldc = ldc,
                          .k = pairs ? depth / 2 : depth,
                          .columns = std::min(kTileColumns, n - j),
                          .accumulate = accumulate || p > 0,
                          .masked_b = false,
                          .ending = last && ending ? &part : nullptr};
          pairs ? run_pair_tile<kMultipliesPairs>(count, tile) : run_tile(count, tile);
        });
        if (!last || !half_ending) continue;
        kernel_set().half_blocks.end(half_ending->from(top, j), c + top * ldc + j, ldc, rows,
                                     std::min(kTileColumns, n - j));
      }
    }
  }
}

// Rounds a block of c to float16.
void round_block(float* c, int64_t ldc, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i, c += ldc) {
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes) {
      store(c + j, round_to_half(load<Widest>(c + j)));
    }
    if (j == columns) continue;
    const Mask rest = first_lanes(columns - j);
    store(c + j, rest, round_to_half(load(c + j, rest)));
  }
}

void by_half_partials(int64_t m, int64_t n, int64_t k, const OperandView& a, const void* b,
                      int64_t panel_k, float* c, int64_t ldc, bool accumulate, float* scratch,
                      Element packed_as) {
  static_assert(kDepth % kHalfPartials == 0);
  for (int64_t top = 0; top < m; top += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, m - top);
    for (int64_t p = 0; p < k || p == 0; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      const LeftBlock left = left_block(a.from(top, p), rows, depth, scratch);
      PanelRows panels(b, packed_as, panel_k, p, depth);
      for (int64_t j = 0; j < n; j += kTileColumns) {
        const float* right = panels.at(j, n - j);
        const int64_t columns = std::min(kTileColumns, n - j);
        for_row_panels(rows, [&](int64_t first, int count) {
          const MatrixView panel = left.panel(first, count);
          float* sums = c + (top + first) * ldc + j;
          for (int64_t q = 0; q < depth || q == 0; q += kHalfPartials) {
            run_tile(count, {.a = panel.from(0, q).data,
                             .a_row = panel.row,
                             .a_col = panel.col,
                             .b = right + q * kPanel,
                             .b_row = kPanel,
                             .b_vector = kLanes == kPanel ? panels.panel_step() : kLanes,
                             .bias = nullptr,
                             .c = sums,
                             .ldc = ldc,
                             .k = std::min(kHalfPartials, depth - q),
                             .columns = columns,
                             .accumulate = false,
                             .masked_b = false,
                             .resume = accumulate || p > 0 || q > 0});
            round_block(sums, ldc, count, columns);
          }
        });
      }
    }
  }
}

// The rows of an unpacked b that by_rows takes at once, in parts of kHalfColumns columns.
class UnpackedRows {
 public:
  // `pairs` asks for words of pairs, which a part without denormals has.
  UnpackedRows(const OperandView& b, int64_t depth, bool pairs)
      : b_(b), depth_(depth), pairs_(pairs) {}

  // Takes `columns` of them from column j on.
  void take(int64_t j, int64_t columns) {
    const OperandView part = b_.from(0, j);
    has_pairs_ = pairs_ && take_pairs(part, columns);
    if (has_pairs_) {
      taken_ = {held_, kHalfColumns, 1};
    } else if (part.element == Element::kFloat) {
      taken_ = part.floats();
    } else {
      for (int64_t q = 0; q < depth_; ++q) {
        to_floats(part.element, part.from(q, 0).as<uint16_t>(), held_ + q * kHalfColumns, columns);
      }
      taken_ = {held_, kHalfColumns, 1};
    }
  }
  const MatrixView& taken() const { return taken_; }
  bool has_pairs() const { return has_pairs_; }

  static constexpr int64_t kHalfColumns = 64;  // two lines of halves of a row

 private:
  bool take_pairs(const OperandView& b, int64_t columns) {
    DenormalSearch denormals;
    for (int64_t q = 0; q < depth_; ++q) search(denormals, b.from(q, 0).as<uint16_t>(), columns);
    if (denormals.found()) return false;
    for (int64_t q = 0; q < depth_; q += 2) {
      pair_rows(b.from(q, 0).as<uint16_t>(), b.from(q + 1, 0).as<uint16_t>(), columns,
                reinterpret_cast<uint32_t*>(held_ + q / 2 * kHalfColumns));
    }
    return true;
  }

  OperandView b_;
  int64_t depth_;
  bool pairs_, has_pairs_ = false;
  MatrixView taken_;
  alignas(64) float held_[kRowsDepth * kHalfColumns];
};

void by_rows(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
             const float* bias, float* c, int64_t ldc) {
  // The loop takes some rows of b at a time, over all columns. b streams from memory once, in
  // order, and the part that one panel of rows reads stays in cache for the next. Sums resume from
  // c, bit-identically.
  alignas(64) float held_pairs[kRowBlock * kRowsDepth / 2], held_floats[kRowBlock * kRowsDepth];
  for (int64_t p = 0; p < k || p == 0; p += kRowsDepth) {
    const bool last = p + kRowsDepth >= k;
    const int64_t depth = std::min(kRowsDepth, k - p);
    const OperandView block = a.from(0, p);
    LeftBlock pairs, floats;
    const bool paired = is_paired(b.element) && a.element == b.element && depth % 2 == 0 &&
                        left_pairs(block, m, depth, held_pairs, pairs);
    bool has_floats = false;
    UnpackedRows rows(b.from(p, 0), depth, paired);
    for (int64_t j = 0; j < n; j += kTileColumns) {
      const int64_t within = j % UnpackedRows::kHalfColumns;
      if (within == 0) rows.take(j, std::min(UnpackedRows::kHalfColumns, n - j));
      const bool in_pairs = rows.has_pairs();
      if (!in_pairs && !has_floats) {
        floats = a.element == Element::kFloat ? LeftBlock{.a = block.floats()}
                                              : left_block(block, m, depth, held_floats);
        has_floats = true;
      }
      for_row_panels(m, [&](int64_t first, int count) {
        const MatrixView panel = (in_pairs ? pairs : floats).panel(first, count);
        const Tile tile{.a = panel.data,
                        .a_row = panel.row,
                        .a_col = panel.col,
                        .b = rows.taken().data + within,
                        .b_row = rows.taken().row,
                        .b_vector = kLanes,
                        .bias = last && bias ? bias + j : nullptr,
                        .c = c + first * ldc + j,
                        .ldc = ldc,
                        .k = in_pairs ? depth / 2 : depth,
                        .columns = std::min(kTileColumns, n - j),
                        .accumulate = false,
                        .masked_b = true,
                        .resume = p > 0};
        in_pairs ? run_pair_tile<kMultipliesPairs>(count, tile) : run_tile(count, tile);
      });
    }
  }
}

}  // namespace

constinit const GemmRoutines kGemmRoutines = {pack,    by_panels, by_half_partials,
                                              by_rows, by_dots,   kMultipliesPairs};

}  // namespace poptorch::emulator::inline POPTORCH_SET
