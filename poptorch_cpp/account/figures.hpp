// The figures of a program's cost report, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace poptorch::account {

// The memory of one IPU of a replica, in bytes. Figures of tensors are exact, those of code are
// estimates.
struct MemoryReport {
  int64_t state_bytes = 0, arena_bytes = 0, stash_bytes = 0, code_bytes = 0, capacity_bytes = 0;
  // Parts of the state; the rest are buffers, hyper-parameters and alignment padding.
  int64_t weight_bytes = 0, optimiser_bytes = 0, accumulator_bytes = 0, constant_bytes = 0;
  int64_t needed() const { return state_bytes + arena_bytes + stash_bytes + code_bytes; }
};

// The work of one IPU in one run, in modelled cycles and in bytes moved. The IPU waits for the rest
// of the run.
struct WorkReport {
  int64_t compute_cycles = 0, link_cycles = 0, host_cycles = 0, streaming_cycles = 0;
  int64_t gateway_cycles = 0, idle_cycles = 0;
  int64_t link_bytes = 0;     // sent to other IPUs by IPU-Links
  int64_t gateway_bytes = 0;  // sent to other IPUs by GW-Links
  int64_t host_bytes = 0, streaming_bytes = 0;
  int64_t overlapped_cycles = 0;  // of host and Streaming Memory transfers: through the IO tiles
};

// A host stream: what its transfers may overlap with, and whether they do.
struct StreamReport {
  std::string name;
  bool to_device = false;
  std::string overlap = "none";  // the loop's name
  bool overlaps = false;
};

struct StageReport {
  int stage = 0, ipu = 0;
  int64_t cycles = 0;               // of one micro-batch, without weight updates
  std::vector<std::string> blocks;  // the user's names, as their forward ops run
};

// Equal ops of one module of one block in one stage, over one run.
struct OpReport {
  int ipu = 0, stage = 0;
  std::string block, module, op;
  int64_t count = 0, cycles = 0;
};

// One part of equal collectives of one module, over one run of one IPU: see collective_cost.hpp.
struct CollectiveReport {
  int ipu = 0;
  std::string module, op, part;
  std::string links;  // "IPU-Links" or "GW-Links"
  int members = 1;
  int64_t count = 0, bytes = 0, cycles = 0;
};

// Counts completed runs and measures them on this host, in seconds of the steady clock.
struct RunTimes {
  int64_t runs = 0;
  double in_runs = 0, between_runs = 0;
};

struct Report {
  std::vector<MemoryReport> ipus;
  std::vector<WorkReport> work;               // by IPU
  std::vector<StageReport> stages;            // ascending
  std::vector<OpReport> ops;                  // most cycles first
  std::vector<CollectiveReport> collectives;  // by IPU, most cycles first
  std::vector<StreamReport> streams;
  std::string device;
  int replicas = 1;                // of all instances
  int instances = 1;               // processes, each with a device for its replicas
  int64_t idle_ipus = 0;           // reserved by this instance to make a power of two
  int64_t streaming_bytes = 0;     // Streaming Memory of one replica
  int64_t streaming_capacity = 0;  // the share of one replica's IPUs in their IPU-Machines
  double bubbles = 0;              // the share of the IPUs' time in which they wait
  int bottleneck_stage = 0;        // the one with the most cycles a micro-batch
  int64_t cycles_per_run = 0;
  double seconds_per_run = 0;            // modelled: cycles over the device's clock
  std::vector<std::string> generic_ops;  // aten ops that run through the generic kernel
  // The measured share of the time of all runs so far, by op without a fast kernel on this host.
  std::vector<std::pair<std::string, double>> reference_kernels;
  RunTimes measured;
};

// The work of an IPU for one stage (in a phase) of one micro-batch, forward or backward.
struct StageWork {
  int ipu = 0, stage = 0, phase = -1;
  int64_t micro_batch = 0;  // of a run
  bool backward = false;
  int64_t cycles = 0;
};

// A transfer between two phases, or one with the host that overlaps with computation.
struct Transfer {
  enum class Kind : uint8_t { kIn, kOut, kLoad, kStore };
  int ipu = 0, phase = -1;
  int64_t micro_batch = 0;
  Kind kind = Kind::kIn;
  std::string name = {};
  int64_t bytes = 0, cycles = 0;
  bool io_tiles = false;
};

struct Timeline {
  std::vector<StageWork> work;
  std::vector<Transfer> transfers;
};

}  // namespace poptorch::account
