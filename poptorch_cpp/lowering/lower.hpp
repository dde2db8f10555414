// Placed IR → program: the schedule (the op list's order, in the loops of micro-batches and device
// iterations), one instruction list an IPU, transfers, and the memory plan.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/module.hpp"
#include "program/program.hpp"
#include "target/locations.hpp"
#include "transforms/strategy.hpp"

namespace poptorch::lowering {

struct LowerOptions {
  std::string device = "ipu2";
  transforms::Strategy strategy = transforms::Strategy::kPipelined;
  transforms::Phasing phasing = {};
  target::TensorLocations locations = {};
  int io_tiles = 0;  // of each IPU; without them no transfer is on IO tiles
  // Of main's inputs and first outputs: the loop that transfers overlap with (see the attribute
  // `overlap` of the op `identity`); empty: none.
  std::vector<std::string> input_overlaps = {}, output_overlaps = {};
  int64_t device_iterations = 1;
  int64_t gradient_accumulation = 1;
  int replicas = 1;
  // Replicas that read the same inputs: groups of `size`, `stride` apart.
  int input_group_size = 1;
  int input_group_stride = 1;
  program::Keep keep = program::Keep::kAll;  // of main's outputs
  int64_t keep_period = 1;
  // Of main's last outputs, in their place.
  std::vector<std::pair<program::Keep, int64_t>> last_keeps = {};
  uint64_t random_seed = 0;
};

// Main's graph becomes the work of one micro-batch, its inputs host streams into the device, its
// outputs streams out, in their order and before the streams that the module declares. An output
// that is a constant is kept once. With gradient accumulation, ops of context `accumulate_outer`
// run after the loop over micro-batches. Pipelined, the stages that ops name run skewed,
// micro-batch m of stage s in cycle m + s: see pipeline.hpp; sharded, IPUs meet after each
// micro-batch; phased, after each phase, between which state and values move to and from Streaming
// Memory: see phased.cpp. Under any strategy `locations` may put state there. Every op has an IPU
// (its own or its caller's; IPU 0 by default) and its operands are there: constants and unwritten
// hyper-parameters everywhere, other values through `ipu_copy`. Equal modules give equal programs.
// The result is verified.
program::Program lower(const ir::Module& module, const LowerOptions& options);

}  // namespace poptorch::lowering
