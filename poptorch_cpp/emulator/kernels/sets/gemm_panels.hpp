// A product with a packed right operand, by blocks of rows and parts of k.
#pragma once

#include "emulator/kernels/sets/gemm_parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// The arguments of gemm_packed().
struct PanelProduct {
  int64_t m, n, k;
  OperandView a;
  const void* b;
  int64_t panel_k;
  const float* bias;
  float* c;
  int64_t ldc;
  bool accumulate;
  float* scratch;
  Element packed_as;
  const Ending* ending;
  const HalfEnding* half_ending;
  bool by_parts;

  void run() const {
    const bool paired = is_paired(packed_as) && a.element == packed_as;
    const bool parted = kMultipliesMatrices && by_parts && a.element == Element::kHalf &&
                        packed_as == Element::kHalf;
    const int64_t most = parted ? kPartRows : kRowBlock;
    for (int64_t top = 0; top < m; top += most) {
      for (int64_t p = 0; p < k || p == 0; p += kDepth) {
        const Block block{.a = a.from(top, p),
                          .top = top,
                          .rows = std::min(most, m - top),
                          .p = p,
                          .depth = std::min(kDepth, k - p),
                          .last = p + kDepth >= k};
        const bool pairs = paired && block.depth % 2 == 0;
        if (parted) {
          by_sums_of_parts(block);
        } else if (kMultipliesMatrices && pairs && block.depth >= kMatrixDepth) {
          by_matrices(block);
        } else {
          by_vectors(block, pairs);
        }
      }
    }
  }

 private:
  // A part of k for a block of rows.
  struct Block {
    OperandView a;
    int64_t top, rows, p, depth;
    bool last;
  };
  // The operands of a tile, and the sums from which it resumes.
  struct Operands {
    MatrixView left;
    const float* right;
    int64_t panel_step, k;
    bool pairs;
    const float* sums = nullptr;
    int64_t sums_row = 0;
  };

  void by_vectors(const Block& block, bool pairs) const {
    LeftBlock left;
    if (pairs) pairs = left_pairs(block.a, block.rows, block.depth, scratch, left);
    if (!pairs) left = left_block(block.a, block.rows, block.depth, scratch);
    PanelRows panels(b, packed_as, panel_k, block.p, block.depth);
    for (int64_t j = 0; j < n; j += kTileColumns) {
      if (pairs && !panels.are_normal(j, std::min(kTileColumns, n - j))) {
        pairs = false;
        left = left_block(block.a, block.rows, block.depth, scratch);
      }
      const float* right = pairs ? panels.pairs_at(j) : panels.at(j, n - j);
      const int64_t step = pairs ? panels.pair_step() : panels.panel_step();
      for_row_panels(block.rows, [&](int64_t first, int count) {
        tile(block, first, count, j, std::min(kTileColumns, n - j),
             {left.panel(first, count), right, step, pairs ? block.depth / 2 : block.depth, pairs});
      });
      end(block, j);
    }
  }

  // Multiplies most of k by matrices and the rest by pairs. Rows and panels with denormals are
  // multiplied as floats: which ones are does not depend on how rows and columns are divided.
  void by_matrices(const Block& block) const {
    const MatrixRegisters registers;
    LeftMatrices left;
    left.take(block.a, block.rows, block.depth);
    const int64_t most = left.steps() * kMatrixDepth, rest = block.depth - most;
    LeftBlock rest_left;
    if (rest > 0) left_pairs(block.a.from(0, most), block.rows, rest, scratch, rest_left);
    PanelRows panels(b, packed_as, panel_k, block.p, block.depth);
    alignas(64) float sums[kMatrixRows * kMatrixRows];
    for (int64_t j = 0; j < n; j += kMatrixRows) {
      const int64_t columns = std::min(kMatrixRows, n - j);
      const bool normal = panels.are_normal(j, columns);
      for (int64_t top = 0; top < block.rows; top += kMatrixRows) {
        const int64_t rows = std::min(kMatrixRows, block.rows - top);
        multiply_matrices<1>(registers, rows, columns, left.at(top), left.block(),
                             reinterpret_cast<const uint32_t*>(panels.pairs_at(j)),
                             panels.pair_step(), left.steps(), sums);
        const auto by_sums = [&](int64_t first, int count, int64_t column, int64_t width) {
          tile(block, top + first, count, j + column, width,
               {rest > 0 ? rest_left.panel(top + first, count) : MatrixView{},
                panels.pairs_at(j + column) + most / 2 * kPanel, panels.pair_step(), rest / 2, true,
                sums + first * kMatrixRows + column, kMatrixRows});
        };
        if (normal && !left.has_marked(top, rows)) {
          for_row_panels(rows,
                         [&](int64_t first, int count) { by_sums(first, count, 0, columns); });
          continue;
        }
        const bool whole[] = {panels.are_normal(j, std::min(kPanel, columns)),
                              columns <= kPanel || panels.are_normal(j + kPanel, columns - kPanel)};
        by_sums_or_floats(
            block, panels, top, rows, j, columns,
            [&](int64_t row, int64_t panel) { return whole[panel] && !left.is_marked(row); },
            by_sums);
      }
      end(block, j);
    }
  }

  // Multiplies by matrices of the parts of elements. Which rows and panels are multiplied as floats
  // does not depend on how rows and columns are divided.
  void by_sums_of_parts(const Block& block) const {
    const MatrixRegisters registers;
    LeftParts left;
    RightParts right;
    left.take(block.a, block.rows, block.depth);
    PanelRows panels(b, packed_as, panel_k, block.p, block.depth);
    alignas(64) float sums[kMatrixRows * kMatrixRows];
    for (int64_t j = 0; j < n; j += kMatrixRows) {
      const int64_t columns = std::min(kMatrixRows, n - j);
      right.take(panels, j, columns, block.depth);
      const bool finite = right.is_finite(0) && (columns <= kPanel || right.is_finite(1));
      for (int64_t top = 0; top < block.rows; top += kMatrixRows) {
        const int64_t rows = std::min(kMatrixRows, block.rows - top);
        prefetch_result(block.top + top, rows, j, columns);
        multiply_matrices<kParts>(registers, rows, columns, left.at(top), left.block(),
                                  right.words(), right.block(), left.steps(), sums);
        const auto by_sums = [&](int64_t first, int count, int64_t column, int64_t width) {
          tile(block, top + first, count, j + column, width,
               {MatrixView{}, nullptr, 0, 0, false, sums + first * kMatrixRows + column,
                kMatrixRows});
        };
        if (finite && left.are_finite(top, rows)) {
          for_row_panels(rows,
                         [&](int64_t first, int count) { by_sums(first, count, 0, columns); });
          continue;
        }
        by_sums_or_floats(
            block, panels, top, rows, j, columns,
            [&](int64_t row, int64_t panel) {
              return left.is_finite(row) && right.is_finite(panel);
            },
            by_sums);
      }
      end(block, j);
    }
  }

  // Loads the lines of a block of the result while it is multiplied.
  void prefetch_result(int64_t top, int64_t rows, int64_t j, int64_t columns) const {
    const bool ends = ending && k <= kDepth;
    const float* to = (ends ? ending->to : c) + j;
    const int64_t step = ends ? ending->row_step : ldc;
    for (int64_t i = top; i < top + rows; ++i) {
      __builtin_prefetch(to + i * step, 1);
      __builtin_prefetch(to + i * step + columns - 1, 1);
    }
  }

  // Ends a block of sums, except rows of panels that are not exact: these are multiplied as floats.
  template <typename IsExact, typename BySums>
  void by_sums_or_floats(const Block& block, PanelRows& panels, int64_t top, int64_t rows,
                         int64_t j, int64_t columns, IsExact is_exact, BySums by_sums) const {
    for (int64_t column = 0; column < columns; column += kPanel) {
      const int64_t panel = column / kPanel, width = std::min(kPanel, columns - column);
      for (int64_t first = 0, last; first < rows; first = last) {
        const bool exact = is_exact(top + first, panel);
        last = first + 1;
        while (last < rows && is_exact(top + last, panel) == exact) ++last;
        for_row_panels(last - first, [&](int64_t i, int count) {
          if (exact) {
            by_sums(first + i, count, column, width);
          } else {
            as_floats(block, panels, top + first + i, count, j + column, width);
          }
        });
      }
    }
  }

  void as_floats(const Block& block, PanelRows& panels, int64_t first, int count, int64_t j,
                 int64_t columns) const {
    alignas(64) float held[kMaxRows * kDepth];
    const LeftBlock left = left_block(block.a.from(first, 0), count, block.depth, held);
    tile(block, first, count, j, columns,
         {left.panel(0, count), panels.at(j, columns), panels.panel_step(), block.depth, false});
  }

  // Computes at most kMaxRows rows by kTileColumns columns of the block.
  void tile(const Block& block, int64_t first, int count, int64_t j, int64_t columns,
            const Operands& operands) const {
    Ending part;
    const bool ends = block.last && ending;
    if (ends) part = ending->from(block.top + first, j);
    const Tile tile{.a = operands.left.data,
                    .a_row = operands.left.row,
                    .a_col = operands.left.col,
                    .b = operands.right,
                    .b_row = kPanel,
                    .b_vector = kLanes == kPanel ? operands.panel_step : kLanes,
                    .bias = block.last && bias ? bias + j : nullptr,
                    .c = c + (block.top + first) * ldc + j,
                    .ldc = ldc,
                    .k = operands.k,
                    .columns = columns,
                    .accumulate = accumulate || block.p > 0,
                    .masked_b = false,
                    .sums = operands.sums,
                    .sums_row = operands.sums_row,
                    .ending = ends ? &part : nullptr};
    operands.pairs ? run_pair_tile<kMultipliesPairs>(count, tile) : run_tile(count, tile);
  }

  // Ends the columns from j on as halves, after the last part of k.
  void end(const Block& block, int64_t j) const {
    if (!block.last || !half_ending) return;
    kernel_set().half_blocks.end(half_ending->from(block.top, j), c + block.top * ldc + j, ldc,
                                 block.rows, std::min(kTileColumns, n - j));
  }
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
