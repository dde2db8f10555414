// A product with a packed right operand, by blocks of rows and parts of k.
#pragma once

#include "emulator/kernels/sets/gemm_parts.hpp"
#include "emulator/kernels/sets/gemm_sums.hpp"

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
    const Way way = way_of();
    const int64_t most = way == Way::kVectors    ? kRowBlock
                         : way == Way::kMatrices ? kMatrixBlock
                                                 : even_rows();
    for (int64_t top = 0; top < m; top += most) {
      for (int64_t p = 0; p < k || p == 0; p += kDepth) {
        const Block block{.a = a.from(top, p),
                          .top = top,
                          .rows = std::min(most, m - top),
                          .p = p,
                          .depth = std::min(kDepth, k - p),
                          .last = p + kDepth >= k};
        if (!kMultipliesMatrices || way == Way::kVectors) {
          by_vectors(block, is_paired(packed_as) && a.element == packed_as && block.depth % 2 == 0);
        } else if (way == Way::kMatrices) {
          by_matrices(block);
        } else if (way == Way::kHalves) {
          by_parts_of<HalfParts>(block);
        } else if (way == Way::kFloats) {
          by_parts_of<FloatParts>(block);
        } else {
          by_parts_of_left(block);
        }
      }
    }
  }

 private:
  // Returns how many rows as few equal blocks as possible have.
  int64_t even_rows() const {
    const int64_t blocks = (m + kPartRows - 1) / kPartRows, rows = (m + blocks - 1) / blocks;
    return (rows + kMatrixRows - 1) / kMatrixRows * kMatrixRows;
  }

  // The operands of the instruction: vectors, or matrices of elements, of parts of float16 or
  // floats, or of parts of floats by bfloat16.
  enum class Way { kVectors, kMatrices, kHalves, kFloats, kFloatsByBfloats };

  Way way_of() const {
    if (!kMultipliesMatrices) return Way::kVectors;
    if (by_parts && a.element == packed_as) {
      if (packed_as == Element::kHalf) return Way::kHalves;
      if (packed_as == Element::kFloat) return Way::kFloats;
    }
    if (packed_as != Element::kBfloat || k < kMatrixDepth) return Way::kVectors;
    if (a.element == Element::kBfloat) return Way::kMatrices;
    const bool parts = by_parts && a.element == Element::kFloat && a.col == 1;
    return parts ? Way::kFloatsByBfloats : Way::kVectors;
  }

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
      end(block, 0, block.rows, j);
    }
  }

  void by_matrices(const Block& block) const {
    LeftMatrices left;
    left.take(block.a, block.rows, block.depth);
    PanelRows panels(b, packed_as, panel_k, block.p, block.depth);
    by_blocks<1, 1>(block, panels, left, RightPairs(panels, block.depth, false));
  }
  template <typename Form>
  void by_parts_of(const Block& block) const {
    LeftParts<Form> left;
    left.take(block.a, block.rows, block.depth);
    PanelRows panels(b, packed_as, panel_k, block.p, block.depth);
    by_blocks<Form::kCount, Form::kCount>(block, panels, left,
                                          RightParts<Form>(panels, block.depth));
  }
  void by_parts_of_left(const Block& block) const {
    LeftParts<FloatParts> left;
    left.take(block.a, block.rows, block.depth);
    PanelRows panels(b, packed_as, panel_k, block.p, block.depth);
    by_blocks<FloatParts::kCount, 1>(block, panels, left, RightPairs(panels, block.depth, true));
  }

  // Multiplies matrices. Rows and panels that would not be exact are multiplied as floats: which
  // ones are does not depend on how rows and columns are divided.
  template <int left_parts, int right_parts, typename Left, typename Right>
  void by_blocks(const Block& block, PanelRows& panels, const Left& left, Right right) const {
    const MatrixRegisters registers;
    SumsInTurn turn;
    for (int64_t j = 0; j < n; j += kMatrixRows) {
      const int64_t columns = std::min(kMatrixRows, n - j);
      const RightMatrices taken = right.take(j, columns);
      for (int64_t top = 0; top < block.rows; top += kMatrixRows) {
        const int64_t rows = std::min(kMatrixRows, block.rows - top);
        if (!ends_in_halves(block)) prefetch_result(block.top + top, rows, j, columns);
        float* sums = turn.next();
        multiply_matrices<left_parts, right_parts>(registers, rows, columns, left.at(top),
                                                   left.block(), taken, sums);
        end_held(block, turn);
        const SumBlock made{top, rows, j, columns, sums};
        if (right.exact().are(0, 2) && left.exact().are(top, rows)) {
          take_exact(block, made, turn);
        } else {
          take_partly_exact(block, panels, made, [&](int64_t row, int64_t panel) {
            return left.exact().holds(row) && right.exact().holds(panel);
          });
        }
      }
    }
    end_held(block, turn);
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

  // Stores a block of sums, or holds it until it ends as halves.
  void take_exact(const Block& block, const SumBlock& made, SumsInTurn& turn) const {
    if (ends_in_halves(block)) return turn.hold(made);
    for_row_panels(made.rows, [&](int64_t first, int count) {
      by_sums(block, made, first, count, 0, made.columns);
    });
  }

  // Stores a block of sums, except rows of panels that are not exact: these are multiplied as
  // floats.
  template <typename IsExact>
  void take_partly_exact(const Block& block, PanelRows& panels, const SumBlock& made,
                         IsExact is_exact) const {
    for (int64_t column = 0; column < made.columns; column += kPanel) {
      const int64_t panel = column / kPanel, width = std::min(kPanel, made.columns - column);
      for (int64_t first = 0, last; first < made.rows; first = last) {
        const bool exact = is_exact(made.top + first, panel);
        last = first + 1;
        while (last < made.rows && is_exact(made.top + last, panel) == exact) ++last;
        for_row_panels(last - first, [&](int64_t i, int count) {
          if (exact) {
            by_sums(block, made, first + i, count, column, width);
          } else {
            as_floats(block, panels, made.top + first + i, count, made.j + column, width);
          }
        });
      }
    }
    end(block, made.top, made.rows, made.j);
  }

  // Stores at most kMaxRows rows of a part of the columns of a block of sums.
  void by_sums(const Block& block, const SumBlock& made, int64_t first, int count, int64_t column,
               int64_t width) const {
    const float* sums = made.sums + first * kMatrixRows + column;
    tile(block, made.top + first, count, made.j + column, width,
         {MatrixView{}, nullptr, 0, 0, false, sums, kMatrixRows});
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

  bool ends_in_halves(const Block& block) const { return block.last && half_ending; }

  // Ends the held block as halves.
  void end_held(const Block& block, SumsInTurn& turn) const {
    turn.end_held([&](const SumBlock& held) {
      const int64_t row = block.top + held.top;
      const bool resumes = accumulate || block.p > 0;
      end_sums(held,
               {.sums = resumes ? c + row * ldc + held.j : nullptr,
                .step = ldc,
                .bias = bias ? bias + held.j : nullptr},
               half_ending->from(row, held.j));
    });
  }

  // Ends the stored sums of rows and of the columns from j on as halves, after the last part of k.
  void end(const Block& block, int64_t top, int64_t rows, int64_t j) const {
    if (!ends_in_halves(block)) return;
    top += block.top;
    kernel_set().half_blocks.end(half_ending->from(top, j), c + top * ldc + j, ldc, rows,
                                 std::min(kTileColumns, n - j));
  }
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
