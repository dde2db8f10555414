// Device profiles and the cost model: the resources of one IPU and the duration of its work. Pure
// data and arithmetic; the estimates are a model and never change values.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace poptorch::target {

struct Device {
  std::string_view name;   // as options name it: "ipu2"
  std::string_view title;  // as people know it: "Mk2 (GC200)"
  int version = 0;         // poptorch.ipuHardwareVersion()
  int tiles = 0;
  int workers_per_tile = 0;
  int64_t sram_per_tile = 0;       // bytes
  int64_t reserved_per_tile = 0;   // bytes of it that programs cannot use
  double clock = 0;                // Hz
  double half_macs_per_cycle = 0;  // multiply-accumulates of a tile's matrix unit
  double float_macs_per_cycle = 0;
  int matrix_outputs = 0;          // of a block of the matrix unit
  double sram_bandwidth = 0;       // bytes a second, all tiles
  double exchange_bandwidth = 0;   // bytes a second, all to all
  double link_bandwidth = 0;       // bytes a second, all IPU-Links of one IPU, both ways
  double gateway_bandwidth = 0;    // bytes a second, an IPU's share of the GW-Links, both ways
  double host_bandwidth = 0;       // bytes a second each way, an IPU's share
  double streaming_bandwidth = 0;  // bytes a second, an IPU's share of its machine's memory
  int64_t streaming_memory = 0;    // bytes of one IPU-Machine of four; 0: none

  // Returns the bytes that programs can use.
  int64_t sram() const { return (sram_per_tile - reserved_per_tile) * tiles; }
  // Returns the bytes of a share of a tile's memory: at least those of a block of the matrix unit.
  int64_t share_of_tile(double share) const;
};

// Throws UserError, which lists the known names, for an unknown device.
const Device& find_device(std::string_view name);
const std::vector<Device>& all_devices();

// The terms of a cycle count, in cycles.
struct Terms {
  double arithmetic = 0;  // multiplications, or the elements' operations
  double vertex = 0;      // launches, loading of weights, sums of partial results
  double exchange = 0;    // between tiles, and rearrangement
  double sync = 0;
  double total() const { return arithmetic + vertex + exchange + sync; }
};

// One execution of an op that is not a product, as the cost model describes it.
struct Work {
  double flops = 0;
  double bytes = 0;            // operands and results, once each
  double moved = 0;            // bytes that change their tile
  double rearranged = 0;       // elements whose layout changes
  double element_cycles = 0;   // of a tile, as planned, if known; else from `flops`
  double measured_cycles = 0;  // of a tile, in addition
  int reductions = 0;          // over all tiles, one after the other, in each step
  double steps = 1;            // one after the other, with exchange between them
  double row = 0;              // elements that take a single step on one tile; 0: there are none
  double elements = 0;
  int64_t io_tiles = 0;  // of the IPU, which do not compute
  double rows = 0;       // that a multi-slice picks
  bool half = false;     // computed on 16-bit elements
};

// Returns the terms of one instruction.
Terms work_terms(const Device& device, const Work& work);
// Returns the work as the tiles divide it: `row` decides whether it takes steps or whole rows.
Work divided_work(const Device& device, const Work& work);
// Rounds to whole cycles; at least 0, and at most a limit whose sums fit 64 bits.
int64_t whole_cycles(double cycles);

// Returns the cycles in which a tile receives `bytes`, after a sync. Tiles of a pair that receive
// the same data share their two paths.
int64_t exchange_cycles(const Device& device, double bytes, bool paired);
// Return the cycles of moving `bytes` out of an IPU: over all its links, in a ring of IPUs, or over
// those that join it with one other IPU.
int64_t link_cycles(const Device& device, double bytes);
int64_t pair_cycles(const Device& device, double bytes);
int64_t gateway_cycles(const Device& device, double bytes);
int64_t host_cycles(const Device& device, double bytes);
int64_t streaming_cycles(const Device& device, double bytes);

// Returns an estimate of the bytes of code of an IPU's program. `vertices` counts the different
// kinds of work (op and operand types) of the instructions; equal ones share their code.
int64_t code_bytes(const Device& device, int64_t instructions, int64_t vertices);

}  // namespace poptorch::target
