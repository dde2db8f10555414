// The walk of a tile program over a block, and what tile_run.cpp and tile_blocks.cpp share.
#pragma once

#include "emulator/kernels/tile/tile_planned.hpp"

namespace poptorch::emulator {

constexpr int kMaxSegments = 64;

// The state of one run(): the positions of the current tile's segments in every buffer.
struct PlannedProgram::Walk {
  std::byte* const* buffers;
  const TileBlock* block;
  std::byte* scratch;
  reference::RoundingBits random[kMaxRoundings];
  int segments = 0;
  int64_t count = 0;                      // elements of the tile
  bool rows_loaded = false;               // fill_rows() has loaded the inputs that repeat
  bool whole_rows = false;                // the tile is a run of them
  bool together = true;                   // the segments are one run of the space
  bool source_together = true;            // and of TileBlock::source
  int64_t length[kMaxSegments];           // of each segment
  int64_t linear[kMaxSegments];           // in the space
  int64_t in_block[kMaxSegments];         // element of TileBlock::source
  int64_t index[kMaxSegments][kMaxDims];  // coordinates, when the space has several dimensions

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

  void clear() { segments = 0, count = 0, together = source_together = true; }

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
  int64_t index[kMaxDims];

  void set(int64_t linear) {
    for (size_t d = sizes.size(); d-- > 0;) {
      index[d] = linear % sizes[d];
      linear /= sizes[d];
    }
  }
  void advance(int64_t count) {
    size_t d = sizes.size() - 1;
    index[d] += count;
    while (d > 0 && index[d] == sizes[d]) {
      index[d] = 0;
      ++index[--d];
    }
  }
};

// Copies n elements between a strided buffer and a dense tile, with conversion.
void move_segment(const TileBuffer& buffer, std::byte* memory, int64_t stride, void* tile,
                  int64_t n, bool load);

// Returns the arguments of a step in these registers.
MicroArgs arguments_of(const TileStep& step, void* const* registers);

}  // namespace poptorch::emulator
