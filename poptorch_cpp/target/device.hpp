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
  double clock = 0;                // Hz
  double half_macs_per_cycle = 0;  // multiply-accumulates of a tile's matrix unit
  double float_macs_per_cycle = 0;
  double sram_bandwidth = 0;      // bytes a second, all tiles
  double exchange_bandwidth = 0;  // bytes a second, all to all
  double link_bandwidth = 0;      // bytes a second, all IPU-Links of one IPU, both ways
  double gateway_bandwidth = 0;   // bytes a second, an IPU's share of the GW-Links, both ways
  double host_bandwidth = 0;      // bytes a second
  int64_t streaming_memory = 0;   // bytes of one IPU-Machine of four; 0: none

  int64_t sram() const { return sram_per_tile * tiles; }
};

// Throws UserError, which lists the known names, for an unknown device.
const Device& find_device(std::string_view name);
const std::vector<Device>& all_devices();

// One execution of an op, as the cost model describes it.
struct Work {
  double flops = 0;
  double bytes = 0;          // operands and results, once each
  bool matrix_unit = false;  // matmul, convolution
  bool half = false;         // computed on 16-bit elements
  bool local = false;        // every tile finds its operands in its own memory: no exchange
  bool joins = false;        // runs in another instruction's launch, beside it
};

// Returns the cycles of one instruction: the larger of compute and exchange, plus the fixed cost of
// a vertex and its synchronisation.
int64_t compute_cycles(const Device& device, const Work& work);
// Returns the cycles of moving `bytes` over a link of `bandwidth` bytes a second.
int64_t transfer_cycles(const Device& device, double bytes, double bandwidth);
// Returns an estimate of the bytes of code of an IPU's program. `vertices` counts the different
// kinds of work (op and operand types) of the instructions; equal ones share their code.
int64_t code_bytes(const Device& device, int64_t instructions, int64_t vertices);

}  // namespace poptorch::target
