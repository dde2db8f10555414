// The figures of a program's cost report, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "include/poptorch/report.hpp"

namespace poptorch::account {

// The C++ interface shows these as they are.
using MemoryReport = poptorch::IpuMemory;
using WorkReport = poptorch::IpuWork;
using StageReport = poptorch::StageCost;
using OpReport = poptorch::OpCost;
using CollectiveReport = poptorch::CollectiveCost;

// A host stream: what its transfers take and may overlap with, and whether they do.
struct StreamReport {
  std::string name;
  bool to_device = false;
  std::string overlap = "none";  // the loop's name
  bool overlaps = false;
  int ipu = 0;                    // that transfers it
  int64_t bytes = 0, cycles = 0;  // of all transfers in a run
};

// Counts completed runs and measures them on this host, in seconds of the steady clock.
struct RunTimes {
  int64_t runs = 0;
  double in_runs = 0, between_runs = 0;
};

struct Report : poptorch::Report {
  std::vector<StreamReport> streams;
  int instances = 1;  // processes, each with a device for its replicas
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
