// Products of float16 whose outputs have several sums each, in a given order of the terms. The sums
// of a few rows are kept in registers. Elements of the right operand are converted there, or once
// for many rows.
#include <algorithm>
#include <utility>

#include "emulator/kernels/sets/half_endings.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

constexpr int kOrderedRows = kRegisters == 32 ? 6 : 3;  // at most; each has a sum and a total
constexpr int kOrderedVectors = 2;                      // of columns
constexpr int64_t kOrderedColumns = std::max<int64_t>(kPanel, kOrderedVectors* kLanes);

// Panels with the first of `kOrderedColumns` columns, `step` elements apart.
template <Element element>
struct OrderedPanels {
  const typename Elements<element>::Stored* first;
  int64_t step;
};

// `Rows` rows from number i on by `Vectors` vectors from column j on. Panels of halves are
// converted in registers.
template <Element element, int Rows, int Vectors>
struct OrderedTile {
  const OrderedSums& r;
  OrderedPanels<element> panels;
  int64_t i, j;

  // Adds the products [k, end) to the sums. One pointer serves three rows, as in gemm_tiles.hpp.
  [[gnu::always_inline]] void add(int64_t k, int64_t end, Widest (&sums)[Rows][Vectors]) const {
    constexpr int kStep = 3, kPointers = (Rows + kStep - 1) / kStep;
    const float* a[kPointers];
    const typename Elements<element>::Stored* b[Vectors];
#pragma GCC unroll 2
    for (int p = 0; p < kPointers; ++p) a[p] = r.a + (i + p * kStep) * r.a_row;
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      const int64_t column = j % kOrderedColumns + v * kLanes;
      b[v] = panels.first + column / kPanel * panels.step + k * kPanel + column % kPanel;
    }
    const int64_t a_row = r.a_row;
    const int32_t* place = r.places + k;
    for (int64_t left = end - k; left > 0; --left, ++place) {
      Widest y[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) {
        y[v] = Elements<element>::template load_all<Widest>(b[v]);
        b[v] += kPanel;
      }
      const int64_t at = *place;
#pragma GCC unroll 6
      for (int row = 0; row < Rows; ++row) {
        const Widest x = spread<Widest>(a[row / kStep][row % kStep * a_row + at]);
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sums[row][v] = fmadd(x, y[v], sums[row][v]);
      }
    }
  }

  void run(const HalfEnder<Element::kHalf>& ender, int64_t row_step, int64_t columns) const {
    Widest totals[Rows][Vectors] = {};
    for (int sum = 0; sum < r.sums; ++sum) {
      Widest sums[Rows][Vectors] = {};
      add(sum == 0 ? 0 : r.ends[sum - 1], r.ends[sum], sums);
#pragma GCC unroll 6
      for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) totals[row][v] = totals[row][v] + sums[row][v];
      }
    }
    const HalfEnder<Element::kHalf> e = ender;  // in registers
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      const int64_t column = j + v * kLanes, count = std::min<int64_t>(kLanes, columns - column);
      count == kLanes ? end<true>(e, totals, v, column, count, row_step)
                      : end<false>(e, totals, v, column, count, row_step);
    }
  }

  template <bool whole>
  [[gnu::always_inline]] void end(const HalfEnder<Element::kHalf>& e,
                                  const Widest (&totals)[Rows][Vectors], int v, int64_t column,
                                  int64_t count, int64_t row_step) const {
    const auto chain = e.template chain<whole>(column, count);
    Widest bias{};
    if (r.bias) {
      bias = whole ? load<Widest>(r.bias + column) : load(r.bias + column, first_lanes(count));
    }
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      e.template end<whole>(totals[row][v] + bias, chain, (i + row) * row_step + column, count);
    }
  }
};

template <Element element, int Vectors, int Rows>
void ordered_tile(const OrderedSums& r, const OrderedPanels<element>& panels,
                  const HalfEnder<Element::kHalf>& e, int64_t row_step, int64_t i, int64_t j,
                  int64_t columns) {
  OrderedTile<element, Rows, Vectors>{r, panels, i, j}.run(e, row_step, columns);
}

// Computes the columns [j, end) of one group of panels.
template <Element element, int... R>
void ordered_rows(std::integer_sequence<int, R...>, const OrderedSums& r,
                  const OrderedPanels<element>& panels, int64_t rows, int64_t j, int64_t end,
                  const HalfEnder<Element::kHalf>& e, int64_t row_step) {
  static constexpr decltype(&ordered_tile<element, 1, 1>) kTiles[kOrderedVectors][kOrderedRows] = {
      {ordered_tile<element, 1, R + 1>...}, {ordered_tile<element, 2, R + 1>...}};
  const int64_t blocks = (rows + kOrderedRows - 1) / kOrderedRows;
  for (; j < end; j += kOrderedVectors * kLanes) {
    const auto& tiles = kTiles[end - j > kLanes];
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = rows * block / blocks, last = rows * (block + 1) / blocks;
      tiles[last - first - 1](r, panels, e, row_step, first, j, end);
    }
  }
}

}  // namespace

void ordered_sums(const OrderedSums& r, int64_t rows, int64_t columns, const HalfEnding& ending) {
  constexpr std::make_integer_sequence<int, kOrderedRows> kRows;
  const HalfEnder<Element::kHalf> e(ending);
  const int64_t row_step = ending.row_step;
  const bool converts_once = rows > 2 * kOrderedRows && r.depth <= kDepth;
  alignas(64) float held[kOrderedColumns * kDepth];
  for (int64_t j = 0; j < columns; j += kOrderedColumns) {
    const int64_t end = std::min(j + kOrderedColumns, columns), step = r.depth * kPanel;
    const uint16_t* panels = r.packed + j * r.depth;
    if (!converts_once) {
      ordered_rows<Element::kHalf>(kRows, r, {panels, step}, rows, j, end, e, row_step);
      continue;
    }
    to_floats_of<Element::kHalf>(panels, held, (end - j + kPanel - 1) / kPanel * step);
    ordered_rows<Element::kFloat>(kRows, r, {held, step}, rows, j, end, e, row_step);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
