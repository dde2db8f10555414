// The report of a compiled model: what the emulated IPUs store and do. Cycles and seconds are those
// of the emulated device.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace poptorch {

// The memory of one IPU of a replica. Figures of tensors are exact, those of code are estimates.
struct IpuMemory {
  int64_t state_bytes = 0;  // weights, optimiser state
  int64_t arena_bytes = 0;  // activations and gradients, at their peak
  int64_t code_bytes = 0;
  int64_t capacity_bytes = 0;
  int64_t stash_bytes = 0;  // values that wait for their backward pass
  // Parts of the state; the rest are buffers, hyper-parameters and alignment padding.
  int64_t weight_bytes = 0, optimiser_bytes = 0, accumulator_bytes = 0, constant_bytes = 0;
  int64_t needed() const { return state_bytes + arena_bytes + stash_bytes + code_bytes; }
};

// The work of one IPU in one run, in modelled cycles and in bytes moved. For the rest of the run it
// waits.
struct IpuWork {
  int64_t compute_cycles = 0, link_cycles = 0, host_cycles = 0, streaming_cycles = 0;
  int64_t gateway_cycles = 0, idle_cycles = 0;  // link: IPU-Links, gateway: GW-Links
  int64_t link_bytes = 0, gateway_bytes = 0, host_bytes = 0, streaming_bytes = 0;
  // Parts of idle: other IPUs of a pipeline transfer with the host, or send.
  int64_t host_wait_cycles = 0, link_wait_cycles = 0;
  int64_t overlapped_cycles = 0;  // host and Streaming Memory, through the I/O tiles
};

struct StageCost {
  int stage = 0, ipu = 0;
  int64_t cycles = 0;               // of one micro-batch, without weight updates
  std::vector<std::string> blocks;  // the user's names, as their forward ops run
};

// The cost of equal ops of one module of one block in one stage, over one run.
struct OpCost {
  int ipu = 0, stage = 0;
  std::string block, module, op;
  int64_t count = 0, cycles = 0;
  // The terms of the cycles: multiplications and element operations; launches, weights and sums of
  // partial results; exchange between tiles; synchronisation. Their sum may differ by rounding.
  int64_t arithmetic_cycles = 0, vertex_cycles = 0, exchange_cycles = 0, sync_cycles = 0;
};

// The cost of one part of equal collectives of one module, over one run of one IPU.
struct CollectiveCost {
  int ipu = 0;
  std::string module, op, part;
  std::string links;  // "IPU-Links" or "GW-Links"
  int members = 1;    // replicas that take part
  int64_t count = 0, bytes = 0, cycles = 0;
};

// The report of one call.
struct Report {
  std::vector<IpuMemory> ipus;
  int64_t cycles_per_run = 0;
  double seconds_per_run = 0;               // modelled: cycles over the device's clock
  std::vector<std::string> generic_ops;     // aten ops that run through the generic kernel
  std::vector<IpuWork> work;                // by IPU
  std::vector<StageCost> stages;            // ascending
  std::vector<OpCost> ops;                  // most cycles first
  std::vector<CollectiveCost> collectives;  // by IPU, most cycles first
  std::string device;
  int replicas = 1;                // of all instances
  int64_t idle_ipus = 0;           // reserved by this instance to make a power of two
  int64_t streaming_bytes = 0;     // Streaming Memory of one replica
  int64_t streaming_capacity = 0;  // the share of one replica's IPUs in their IPU-Machines
  double bubbles = 0;              // the share of the IPUs' time in which they wait
  int bottleneck_stage = 0;        // the one with the most cycles a micro-batch
  // The measured share of the time of all runs so far, by op without a fast kernel on this host.
  std::vector<std::pair<std::string, double>> reference_kernels;
};

// A cell of the schedule: the work of an IPU for one stage of one micro-batch in a step.
struct Cell {
  int ipu = 0, stage = 0, phase = -1;  // only phased strategies have phases
  int64_t micro_batch = 0;
  bool backward = false;
  int64_t cycles = 0;
  int64_t step = 0;
};

// A transfer in the schedule: with the host beside computation, or between phases.
struct ScheduledTransfer {
  int ipu = 0, phase = -1;
  int64_t micro_batch = 0;
  std::string kind;  // in, out, load, store
  std::string name;
  int64_t bytes = 0, cycles = 0;
  bool io_tiles = false;
  int64_t step = 0;
};

// Says when which IPU works on which micro-batch.
struct Schedule {
  int64_t ipus = 0, idle_ipus = 0, stages = 0, steps = 0;
  std::vector<std::vector<std::string>> blocks;  // by IPU
  std::vector<int> phases;                       // by step; empty without phases
  std::vector<Cell> cells;
  std::vector<ScheduledTransfer> transfers;
  double bubbles = 0;  // the share of steps in which IPUs do nothing
  int bottleneck = 0;  // the stage with the most cycles a micro-batch
};

}  // namespace poptorch
