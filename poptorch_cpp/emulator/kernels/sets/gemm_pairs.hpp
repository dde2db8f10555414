// The operands of products of bfloat16 as words of pairs (bfloat_pairs.hpp), where one instruction
// multiplies them.
#pragma once

#include "emulator/kernels/sets/bfloat_pairs.hpp"
#include "emulator/kernels/sets/gemm_packing.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Returns whether packed panels of these elements have words of pairs.
constexpr bool is_paired(Element element) {
  return kMultipliesPairs && element == Element::kBfloat;
}

template <bool enabled>
void run_pair_tile(int rows, const Tile& tile) {
  if constexpr (enabled) run_tile<true>(rows, tile);
}

// Joins the rows of a packed panel, two at a time. The last of an odd number stays as it is.
inline void pair_panel(uint16_t* panel, int64_t k) {
  for (int64_t p = 0; p + 2 <= k; p += 2, panel += 2 * kPanel) {
    uint32_t pairs[kPanel];
    pair_rows(panel, panel + kPanel, kPanel, pairs);
    std::memcpy(panel, pairs, sizeof(pairs));
  }
}

// Packs panels [first, last) of row-major elements or of columns as words of pairs.
inline void pack_pairs(const OperandView& b, int64_t k, int64_t n, int64_t first, int64_t last,
                       uint16_t* packed, int64_t panel_k) {
  for (int64_t panel = first; panel < last; ++panel) {
    uint16_t* to = packed + panel * kPanel * panel_k;
    if (b.col != 1 || (panel + 1) * kPanel > n) {
      pack_as(b, k, n, panel, panel + 1, packed, panel_k);
      pair_panel(to, k);
      continue;
    }
    const uint16_t* row = b.from(0, panel * kPanel).as<uint16_t>();
    int64_t p = 0;
    for (; p + 2 <= k; p += 2, row += 2 * b.row, to += 2 * kPanel) {
      uint32_t pairs[kPanel];
      pair_rows(row, row + b.row, kPanel, pairs);
      std::memcpy(to, pairs, sizeof(pairs));
    }
    if (p < k) std::memcpy(to, row, kPanel * sizeof(uint16_t));
  }
}

// Converts `depth` rows of a packed panel, from an even row on.
inline void panel_to_floats(Element element, const uint16_t* panel, float* out, int64_t depth) {
  if (!is_paired(element)) return to_floats(element, panel, out, kPanel * depth);
  int64_t p = 0;
  for (; p + 2 <= depth; p += 2, panel += 2 * kPanel) {
    uint32_t pairs[kPanel];
    std::memcpy(pairs, panel, sizeof(pairs));
    unpair(pairs, kPanel, out + p * kPanel, out + (p + 1) * kPanel);
  }
  if (p < depth) to_floats(element, panel, out + p * kPanel, kPanel);
}

// Stores the pairs of the first two columns of at most kRowBlock rows, or of one and zeros.
inline void pair_columns(const OperandView& a, int64_t count, int64_t rows,
                         DenormalSearch& denormals, uint32_t* pairs) {
  static constexpr uint16_t kZeros[kRowBlock] = {};
  uint16_t held[2][kRowBlock];
  const uint16_t* columns[2] = {kZeros, kZeros};
  for (int64_t q = 0; q < count; ++q) {
    columns[q] = a.from(0, q).as<uint16_t>();
    if (a.row != 1) {
      for (int64_t i = 0; i < rows; ++i) held[q][i] = columns[q][i * a.row];
      columns[q] = held[q];
    }
    search(denormals, columns[q], rows);
  }
  pair_rows(columns[0], columns[1], rows, pairs);
}

// Makes a block of at most kRowBlock rows of bfloat16 and an even number of columns. Returns false
// if it has denormals.
inline bool left_pairs(const OperandView& a, int64_t rows, int64_t depth, float* scratch,
                       LeftBlock& left) {
  auto* pairs = reinterpret_cast<uint32_t*>(scratch);
  DenormalSearch denormals;
  if (a.col == 1) {
    for (int64_t i = 0; i < rows; ++i) {
      const uint16_t* row = a.from(i, 0).as<uint16_t>();
      search(denormals, row, depth);
      pair_neighbours(row, depth / 2, pairs + i * (depth / 2));
    }
    left = {.a = {scratch, depth / 2, 1}};
    return !denormals.found();
  }
  for (int64_t p = 0; p < depth; p += 2) {
    pair_columns(a.from(0, p), 2, rows, denormals, pairs + p / 2 * rows);
  }
  left = {.a = {scratch, 1, rows}};
  return !denormals.found();
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
