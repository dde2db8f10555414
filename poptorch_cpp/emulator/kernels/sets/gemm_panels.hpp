// A product with a packed right operand, by blocks of rows and parts of k.
#pragma once

#include "emulator/kernels/sets/gemm_matrices.hpp"
#include "emulator/kernels/sets/gemm_panel_rows.hpp"

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

  void run() const {
    for (int64_t top = 0; top < m; top += kRowBlock) {
      const int64_t rows = std::min(kRowBlock, m - top);
      for (int64_t p = 0; p < k || p == 0; p += kDepth) {
        const Block block{.a = a.from(top, p),
                          .top = top,
                          .rows = rows,
                          .p = p,
                          .depth = std::min(kDepth, k - p),
                          .last = p + kDepth >= k};
        const bool pairs = is_paired(packed_as) && a.element == packed_as && block.depth % 2 == 0;
        if (kMultipliesMatrices && pairs && block.depth >= kMatrixDepth) {
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
        multiply_matrices(registers, rows, columns, left.at(top), left.block(),
                          reinterpret_cast<const uint32_t*>(panels.pairs_at(j)), panels.pair_step(),
                          left.steps(), sums);
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
        for (int64_t column = 0; column < columns; column += kPanel) {
          const int64_t width = std::min(kPanel, columns - column);
          const bool whole = panels.are_normal(j + column, width);
          for (int64_t first = 0, last; first < rows; first = last) {
            last = left.end_of_run(top + first, top + rows) - top;
            const bool floats = !whole || left.is_marked(top + first);
            for_row_panels(last - first, [&](int64_t i, int count) {
              if (floats) {
                as_floats(block, panels, top + first + i, count, j + column, width);
              } else {
                by_sums(first + i, count, column, width);
              }
            });
          }
        }
      }
      end(block, j);
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
