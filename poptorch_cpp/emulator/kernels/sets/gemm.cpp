// This file is compiled once for each instruction set.
#include "emulator/kernels/sets/gemm_dots.hpp"
#include "emulator/kernels/sets/gemm_packing.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using reference::kHalfPartials;

void pack(const OperandView& b, int64_t k, int64_t n, int64_t first, int64_t last, void* packed,
          int64_t panel_k) {
  if (b.element == Element::kFloat) {
    pack_as(b, k, n, first, last, static_cast<float*>(packed), panel_k);
  } else {
    pack_as(b, k, n, first, last, static_cast<uint16_t*>(packed), panel_k);
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
        to_floats(element_, reinterpret_cast<const uint16_t*>(from) + i * kPanel * panel_k_,
                  held_ + i * kPanel * depth_, kPanel * depth_);
      }
    }
    return held_ + column;
  }
  // Returns the distance between the panels that at() has returned.
  int64_t panel_step() const { return kPanel * (element_ == Element::kFloat ? panel_k_ : depth_); }

 private:
  static constexpr int64_t kGroup = std::max<int64_t>(kTileColumns / kPanel, 1);
  const std::byte* packed_;
  Element element_;
  int64_t panel_k_, p_, depth_;
  alignas(64) float held_[kGroup * kPanel * kDepth];
};

void by_panels(int64_t m, int64_t n, int64_t k, const OperandView& a, const void* b,
               int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
               float* scratch, Element packed_as, const Ending* ending) {
  for (int64_t top = 0; top < m; top += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, m - top);
    for (int64_t p = 0; p < k || p == 0; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      const bool last = p + kDepth >= k;
      const LeftBlock left = left_block(a.from(top, p), rows, depth, scratch);
      PanelRows panels(b, packed_as, panel_k, p, depth);
      for (int64_t j = 0; j < n; j += kTileColumns) {
        const float* right = panels.at(j, n - j);
        for_row_panels(rows, [&](int64_t first, int count) {
          const MatrixView panel = left.panel(first, count);
          Ending part;
          if (last && ending) part = ending->from(top + first, j);
          run_tile(count, {.a = panel.data,
                           .a_row = panel.row,
                           .a_col = panel.col,
                           .b = right,
                           .b_row = kPanel,
                           .b_vector = kLanes == kPanel ? panels.panel_step() : kLanes,
                           .bias = last && bias ? bias + j : nullptr,
                           .c = c + (top + first) * ldc + j,
                           .ldc = ldc,
                           .k = depth,
                           .columns = std::min(kTileColumns, n - j),
                           .accumulate = accumulate || p > 0,
                           .masked_b = false,
                           .ending = last && ending ? &part : nullptr});
        });
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

// Columns of an unpacked b that are converted at once: two lines of halves of a row.
constexpr int64_t kHalfColumns = 64;

// Returns rows of b as floats: in place, or converted.
MatrixView as_floats(const OperandView& b, int64_t depth, int64_t columns, float* held) {
  if (b.element == Element::kFloat) return b.floats();
  for (int64_t q = 0; q < depth; ++q) {
    to_floats(b.element, b.from(q, 0).as<uint16_t>(), held + q * kHalfColumns, columns);
  }
  return {held, kHalfColumns, 1};
}

void by_rows(int64_t m, int64_t n, int64_t k, const MatrixView& a, const OperandView& b,
             const float* bias, float* c, int64_t ldc) {
  // The loop takes some rows of b at a time, over all columns. b streams from memory once, in
  // order, and the part that one panel of rows reads stays in cache for the next. Sums resume from
  // c, bit-identically.
  alignas(64) float held[kRowsDepth * kHalfColumns];
  MatrixView floats;
  for (int64_t p = 0; p < k || p == 0; p += kRowsDepth) {
    const bool last = p + kRowsDepth >= k;
    const int64_t depth = std::min(kRowsDepth, k - p);
    for (int64_t j = 0; j < n; j += kTileColumns) {
      const int64_t within = j % kHalfColumns;
      if (within == 0) floats = as_floats(b.from(p, j), depth, std::min(kHalfColumns, n - j), held);
      for_row_panels(m, [&](int64_t first, int count) {
        run_tile(count, {.a = a.from(first, p).data,
                         .a_row = a.row,
                         .a_col = a.col,
                         .b = floats.data + within,
                         .b_row = floats.row,
                         .b_vector = kLanes,
                         .bias = last && bias ? bias + j : nullptr,
                         .c = c + first * ldc + j,
                         .ldc = ldc,
                         .k = depth,
                         .columns = std::min(kTileColumns, n - j),
                         .accumulate = false,
                         .masked_b = true,
                         .resume = p > 0});
      });
    }
  }
}

}  // namespace

constinit const GemmRoutines kGemmRoutines = {pack, by_panels, by_half_partials, by_rows, by_dots};

}  // namespace poptorch::emulator::inline POPTORCH_SET
