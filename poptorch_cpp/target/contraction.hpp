// The cost of matrix products and convolutions on the matrix units, by shape.
#pragma once

#include <cstdint>
#include <string>

#include "target/constants.hpp"
#include "target/device.hpp"

namespace poptorch::target {

// A product of `groups` independent pairs. A result has batch × height × width rows and `outer`
// columns, and sums over `inner` channels at each of the taps of a kernel. A matrix product has a
// kernel of 1 × 1.
struct Contraction {
  int64_t groups = 1, batch = 1, height = 1, width = 1;
  int64_t inner = 1, outer = 1;
  int64_t taps_y = 1, taps_x = 1, stride = 1;
  int64_t reuse = 1;       // elements of the rows' operand occur this many times
  int64_t rearranged = 0;  // elements of the operands that first change their layout
  bool half = false;
  int partial_bytes = 4;
  int64_t io_tiles = 0;     // of the IPU, which do not compute
  int64_t tile_memory = 0;  // bytes of a tile for operands and partial sums; 0: no limit

  double flops() const;
};

// The division of a contraction over the tiles, and the terms of its cycles.
struct ContractionPlan {
  int64_t groups = 1, rows = 1, inner = 1, outer = 1;  // parts
  int64_t rounds = 1;                                  // one after the other, for lack of memory
  int64_t steps = 0;                                   // launches
  int64_t tile_bytes = 0;                              // of operands and partial sums at a time
  Terms terms;

  // Returns the bytes of operands and partial sums at a time, on all tiles that work.
  int64_t temporary_bytes() const { return tile_bytes * groups * rows * inner * outer; }
};

// Returns the division with the fewest cycles. Remembers plans with the default constants.
ContractionPlan plan_contraction(const Device& device, const Contraction& contraction);
ContractionPlan plan_contraction(const Device& device, const Contraction& contraction,
                                 const Constants& constants);

// Forgets the remembered plans, after a constant was replaced.
void forget_plans();

}  // namespace poptorch::target
