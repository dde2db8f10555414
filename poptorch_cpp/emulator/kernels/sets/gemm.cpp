// This file is compiled once for each instruction set.
#include "emulator/kernels/sets/gemm_dots.hpp"
#include "emulator/kernels/sets/gemm_few_rows.hpp"
#include "emulator/kernels/sets/gemm_panels.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using reference::kHalfPartials;

void pack(const OperandView& b, int64_t k, int64_t n, int64_t first, int64_t last, void* packed,
          int64_t panel_k) {
  if (b.element == Element::kFloat) {
    pack_as(b, k, n, first, last, static_cast<float*>(packed), panel_k);
  } else if (is_paired(b.element)) {
    pack_pairs(b, k, n, first, last, static_cast<uint16_t*>(packed), panel_k);
  } else {
    pack_as(b, k, n, first, last, static_cast<uint16_t*>(packed), panel_k);
  }
}

void by_panels(int64_t m, int64_t n, int64_t k, const OperandView& a, const void* b,
               int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
               float* scratch, Element packed_as, const Ending* ending,
               const HalfEnding* half_ending, bool by_parts) {
  PanelProduct{m,   n,          k,       a,         b,      panel_k,     bias,    c,
               ldc, accumulate, scratch, packed_as, ending, half_ending, by_parts}
      .run();
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
                             .sums = accumulate || p > 0 || q > 0 ? sums : nullptr,
                             .sums_row = ldc});
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

// Computes a product with an inner size of 1.
void by_one_row(int64_t m, int64_t n, const MatrixView& a, const float* b, const float* bias,
                float* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    const Widest x = spread<Widest>(a.data[i * a.row]);
    float* y = c + i * ldc;
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      store(y + j, fmadd(x, load<Widest>(b + j), bias ? load<Widest>(bias + j) : Widest{}));
    }
    if (j == n) continue;
    const Mask rest = first_lanes(n - j);
    store(y + j, rest, fmadd(x, load(b + j, rest), bias ? load(bias + j, rest) : Widest{}));
  }
}

void by_rows(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
             const float* bias, float* c, int64_t ldc) {
  if (k == 1 && a.element == Element::kFloat && b.element == Element::kFloat) {
    return by_one_row(m, n, a.floats(), b.floats().data, bias, c, ldc);
  }
  if (m <= kFewRows && b.element == Element::kHalf) {
    return by_few_rows<Element::kHalf>(m, n, k, a, b, bias, c, ldc);
  }
  if (m <= kFewRows && b.element == Element::kBfloat) {
    return by_few_rows<Element::kBfloat>(m, n, k, a, b, bias, c, ldc);
  }
  // The loop takes some rows of b at a time, over all columns. b streams from memory once, in
  // order, and the part that one panel of rows reads stays in cache for the next. Sums resume from
  // c, bit-identically.
  alignas(64) float held_pairs[kRowBlock * kRowsDepth / 2], held_floats[kRowBlock * kRowsDepth];
  for (int64_t p = 0; p < k || p == 0; p += kRowsDepth) {
    const bool last = p + kRowsDepth >= k;
    const int64_t depth = std::min(kRowsDepth, k - p);
    const OperandView block = a.from(0, p);
    LeftBlock pairs, floats;
    // Processors that multiply matrices have no faster products of pairs than of floats.
    const bool paired = !kMultipliesMatrices && is_paired(b.element) && a.element == b.element &&
                        depth % 2 == 0 && left_pairs(block, m, depth, held_pairs, pairs);
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
                        .sums = p > 0 ? c + first * ldc + j : nullptr,
                        .sums_row = ldc};
        in_pairs ? run_pair_tile<kMultipliesPairs>(count, tile) : run_tile(count, tile);
      });
    }
  }
}

}  // namespace

constinit const GemmRoutines kGemmRoutines = {
    pack, by_panels, by_half_partials, by_rows, by_dots, kMultipliesPairs, kMultipliesMatrices};

}  // namespace poptorch::emulator::inline POPTORCH_SET
