// The walk of a tile program over a block, and what tile_run.cpp and tile_blocks.cpp share.
#pragma once

#include <algorithm>
#include <array>

#include "emulator/kernels/tile/tile_planned.hpp"

namespace poptorch::emulator {

constexpr int kMaxSegments = 64;

// Coordinates in a space. They are copied for each segment, and the whole array takes less time
// than a call that copies those in use.
using Coordinates = std::array<int64_t, kMaxDims>;

// The state of one run(): the positions of the current tile's segments in every buffer.
struct PlannedProgram::Walk {
  std::byte* const* buffers;
  const TileBlock* block;
  std::byte* scratch;
  reference::RoundingBits random[kMaxRoundings];
  int segments = 0;
  int64_t count = 0;                // elements of the tile
  bool rows_loaded = false;         // fill_rows() has loaded the inputs that repeat
  bool whole_rows = false;          // the tile is a run of them
  bool together = true;             // the segments are one run of the space
  bool source_together = true;      // and of TileBlock::source
  int64_t length[kMaxSegments];     // of each segment
  int64_t linear[kMaxSegments];     // in the space
  int64_t in_block[kMaxSegments];   // element of TileBlock::source
  Coordinates index[kMaxSegments];  // when the space has several dimensions

  // The element of a column input that fills its slot, and how far.
  const std::byte* held[kMaxChainBuffers] = {};
  int64_t filled[kMaxChainBuffers];

  // Returns whether a column input's slot already holds the tile's element, which is at `from`.
  bool is_filled(size_t input, const std::byte* from) {
    const bool known = segments == 1 && held[input] == from && filled[input] >= count;
    held[input] = segments == 1 ? from : nullptr;
    if (!known) filled[input] = count;
    return known;
  }

  // Returns how many segments from `s` on are whole rows that follow each other in the dimension
  // around them; 1 if that one is not a whole row.
  int rows_from(int s, size_t dims) const {
    const auto row = [&](int i) { return index[i][dims - 2]; };
    int end = s + 1;
    if (!together || index[s][dims - 1] != 0) return 1;
    while (end < segments && row(end) == row(s) + end - s && length[end] == length[s]) ++end;
    return end - s;
  }

  void clear() { segments = 0, count = 0, together = source_together = true; }

  // Adds as many short rows from `position` on as the tile has room for, up to the end of the
  // dimension around them, and moves the position. Returns their number.
  int64_t add_rows(Position& position, int64_t first, int64_t first_in_block, int64_t left,
                   int64_t most);

  // Notes whether the new last segment continues the one before it.
  void join_last() {
    const int s = segments - 1;
    if (s == 0) return;
    together = together && linear[s] == linear[s - 1] + length[s - 1];
    source_together = source_together && in_block[s] == in_block[s - 1] + length[s - 1];
  }
};

// Coordinates in a space that advance along its innermost dimension, by at most a run.
struct PlannedProgram::Position {
  const ir::Shape& sizes;
  Coordinates index;

  void set(int64_t linear) {
    for (size_t d = sizes.size(); d-- > 0;) {
      index[d] = linear % sizes[d];
      linear /= sizes[d];
    }
  }
  void advance(int64_t count) { advance(sizes.size() - 1, count); }
  // Advances along dimension d.
  void advance(size_t d, int64_t count) {
    index[d] += count;
    while (d > 0 && index[d] == sizes[d]) {
      index[d] = 0;
      ++index[--d];
    }
  }
};

inline int64_t PlannedProgram::Walk::add_rows(Position& position, int64_t first,
                                              int64_t first_in_block, int64_t left, int64_t most) {
  const size_t dims = position.sizes.size();
  const int64_t row = position.sizes[dims - 1];
  if (dims < 2 || position.index[dims - 1] != 0) return 0;
  const size_t around = dims - 2;
  const int64_t rows =
      std::min({left / row, (most - count) / row, static_cast<int64_t>(kMaxSegments - segments),
                position.sizes[around] - position.index[around]});
  for (int64_t r = 0; r < rows; ++r) {
    const int s = segments++;
    length[s] = row;
    linear[s] = first + r * row;
    in_block[s] = first_in_block + r * row;
    index[s] = position.index;
    index[s][around] += r;
    join_last();
  }
  count += rows * row;
  if (rows > 0) position.advance(around, rows);
  return rows;
}

inline int64_t offset_of(const TileBuffer& buffer, const Coordinates& index, size_t dims) {
  int64_t offset = 0;
  for (size_t d = 0; d < dims; ++d) offset += index[d] * buffer.strides[d];
  return offset;
}

// Copies n elements between a strided buffer and a dense tile, with conversion.
void move_segment(const TileBuffer& buffer, std::byte* memory, int64_t stride, void* tile,
                  int64_t n, bool load);

// Returns the arguments of a step in these registers.
MicroArgs arguments_of(const TileStep& step, void* const* registers);

}  // namespace poptorch::emulator
