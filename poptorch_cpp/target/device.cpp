// The three profiles, and a four-tile version of each for models of the machine. Sources: [A]
// Graphcore, "IPU Programmer's Guide", hardware overview; [B] IPU-M2000 and Bow-2000 datasheets;
// [C] C2 card datasheet (Mk1); [D] derived: peak / (tiles · 2 · clock); [E] costs that
// Graphcore's open-source libraries assume; [F] Jia et al., "Dissecting the Graphcore IPU via
// Microbenchmarking".
#include "target/device.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "support/error.hpp"
#include "support/strings.hpp"
#include "target/constants.hpp"

namespace poptorch::target {
namespace {

constexpr int64_t kKiB = 1024;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

// A tile's vector unit is 64 bits wide: two floats or four halves a cycle [A].
constexpr double kVectorBytesPerCycle = 8;
// These are assumptions per tile: control and vertex state of an instruction; code and exchange of
// a kind.
constexpr int64_t kInstructionBytes = 8;
constexpr int64_t kVertexBytes = 128;

// A Bow-2000 has 2 × 100 Gb/s each way for its four IPUs [B]. The other machines are assumed to be
// joined in the same way.
constexpr double kGatewayBandwidth = 2 * (2 * 100 * kGiga / 8) / 4;

// An IPU-Machine has 100 Gb/s each way to the host, and two DIMMs of DDR4-2400 that share one
// channel's 38.4 GB/s for its four IPUs [B].
constexpr double kHostBandwidth = 100 * kGiga / 8 / 4;
constexpr double kStreamingBandwidth = 38.4 * kGiga / 4;

// The tiles of the small IPU Model.
constexpr int kSmallTiles = 4;
constexpr std::string_view kSmallNames[] = {"ipu1-small", "ipu2-small", "ipu21-small"};

std::vector<Device> make_devices() {
  Device mk1{.name = "ipu1",
             .title = "Mk1 (GC2)",
             .version = 1,
             .tiles = 1216,                    // [C]
             .workers_per_tile = 6,            // [A]
             .sram_per_tile = 256 * kKiB,      // [C]
             .reserved_per_tile = 8 * kKiB,    // [F] 248 of 256 KiB were usable
             .clock = 1.6 * kGiga,             // [C]
             .half_macs_per_cycle = 32,        // [D] from 124.5 TFLOP/s
             .float_macs_per_cycle = 8,        // [D] from 31.1 TFLOP/s
             .matrix_outputs = 8,              // [E]
             .sram_bandwidth = 45 * kTera,     // [C]
             .exchange_bandwidth = 8 * kTera,  // [C]
             .link_bandwidth = 320 * kGiga,    // [C]
             .gateway_bandwidth = kGatewayBandwidth,
             .host_bandwidth = 5.94 * kGiga,  // [F] measured, PCIe 3 x8
             .streaming_memory = 0};          // [C]
  Device mk2{.name = "ipu2",
             .title = "Mk2 (GC200)",
             .version = 2,
             .tiles = 1472,                    // [B]
             .workers_per_tile = 6,            // [A]
             .sram_per_tile = 624 * kKiB,      // [B]
             .clock = 1.33 * kGiga,            // [B]
             .half_macs_per_cycle = 64,        // [B] 250 TFLOP/s
             .float_macs_per_cycle = 16,       // [B] 62.5 TFLOP/s
             .matrix_outputs = 16,             // [E]
             .sram_bandwidth = 47.5 * kTera,   // [B]
             .exchange_bandwidth = 8 * kTera,  // [B]
             .link_bandwidth = 320 * kGiga,    // [B]
             .gateway_bandwidth = kGatewayBandwidth,
             .host_bandwidth = kHostBandwidth,
             .streaming_bandwidth = kStreamingBandwidth,
             .streaming_memory = int64_t{448} * 1000 * 1000 * 1000};  // [B] up to
  Device bow = mk2;  // of GC200 and Bow, no reserved memory is published
  bow.name = "ipu21";
  bow.title = "Bow";
  bow.version = 21;
  bow.clock = 1.85 * kGiga;             // [B]; peaks 350 and 87.5 TFLOP/s follow
  bow.sram_bandwidth = 65.4 * kTera;    // [B]
  bow.exchange_bandwidth = 11 * kTera;  // [B]
  std::vector<Device> devices = {mk1, mk2, bow};
  for (Device small : {mk1, mk2, bow}) {
    const double share = static_cast<double>(kSmallTiles) / small.tiles;
    small.name = kSmallNames[devices.size() - 3];
    small.title = "the same with 4 tiles";
    small.tiles = kSmallTiles;
    small.sram_bandwidth *= share;
    small.exchange_bandwidth *= share;
    devices.push_back(small);
  }
  return devices;
}

// The limit exceeds any run; sums over the ops of a program fit 64 bits.
constexpr double kMostCycles = 0x1p42;

int64_t transfer_cycles(const Device& device, double bytes, double bandwidth, double latency) {
  const double seconds = bandwidth > 0 ? bytes / bandwidth + latency : latency;
  return whole_cycles(seconds * device.clock);
}

}  // namespace

int64_t Device::share_of_tile(double share) const {
  constexpr int64_t kBlock = 1024;
  return std::max<int64_t>(kBlock, std::llround(share * static_cast<double>(sram_per_tile)));
}

const std::vector<Device>& all_devices() {
  static const std::vector<Device> devices = make_devices();
  return devices;
}

const Device& find_device(std::string_view name) {
  std::vector<std::string> known;
  for (const Device& device : all_devices()) {
    if (device.name == name) return device;
    known.emplace_back(device.name);
  }
  throw support::UserError(support::str("[target] no device is named '", name,
                                        "'. The known ones are ", support::join(known, ", "), "."));
}

int64_t whole_cycles(double cycles) { return std::llround(std::clamp(cycles, 0.0, kMostCycles)); }

namespace {

// Returns the elements of the busiest tile: of all steps, or of whole rows.
double elements_of_tile(const Work& work, double tiles) {
  if (work.row > 0) return std::ceil(work.elements / work.row / tiles) * work.row;
  return std::ceil(work.elements / work.steps / tiles) * work.steps;
}

}  // namespace

Work divided_work(const Device& device, const Work& work) {
  if (work.row == 0) return work;
  Work whole = work, spread = work;
  whole.steps = 1;
  spread.row = 0;
  const bool stays = work_terms(device, whole).total() <= work_terms(device, spread).total();
  return stays ? whole : spread;
}

Terms work_terms(const Device& device, const Work& work) {
  const Constants& k = constants();
  const auto tiles = static_cast<double>(device.tiles - work.io_tiles);
  const double more = work.steps - 1;
  Terms terms{.vertex = work.steps * k.launch,
              .exchange = more * k.exchange_latency,
              .sync = k.sync + 2 * more * k.sync};
  const double vector = kVectorBytesPerCycle / (work.half ? 2 : 4);  // elements
  const double elements = elements_of_tile(work, tiles);
  if (work.element_cycles > 0) {
    terms.arithmetic = elements * work.element_cycles;
  } else if (work.flops > 0) {
    const double issues = work.flops / std::max(work.elements, 1.0) + k.vector_issue;
    terms.arithmetic = elements * issues / vector;
  }
  terms.arithmetic = terms.arithmetic * k.element_factor + elements * work.measured_cycles;
  terms.vertex += work.steps * work.reductions * k.reduction;
  // Loads and stores take the same cycles where they are not the longer.
  const double bandwidth = device.sram_bandwidth * tiles / device.tiles;
  const double memory = work.bytes / bandwidth * device.clock;
  terms.arithmetic = std::max(terms.arithmetic, memory);
  if (work.rows > 0) {
    const double pieces = std::ceil(work.rows / tiles);
    terms.vertex += k.slice_start + k.slice_row * pieces + k.slice_pair / 2 * elements;
  }
  if (work.moved > 0 || work.rearranged > 0) {
    const double rate = k.exchange_rate * tiles;
    terms.exchange += k.exchange_latency + work.moved / rate + work.rearranged / tiles;
    terms.sync += k.sync;
  }
  return terms;
}

int64_t exchange_cycles(const Device&, double bytes, bool paired) {
  const Constants& k = constants();
  const double rate = k.exchange_rate * (paired ? k.paired_exchange : 1);
  return whole_cycles(k.sync + k.exchange_latency + bytes / rate);
}

int64_t link_cycles(const Device& device, double bytes) {
  const Constants& k = constants();
  return transfer_cycles(device, bytes, device.link_bandwidth / 2 * k.link_efficiency,
                         k.link_latency);
}

int64_t pair_cycles(const Device& device, double bytes) {
  const Constants& k = constants();
  return link_cycles(device, bytes * k.links / k.links_of_pair);
}

int64_t gateway_cycles(const Device& device, double bytes) {
  return transfer_cycles(device, bytes, device.gateway_bandwidth / 2, constants().gateway_latency);
}

int64_t host_cycles(const Device& device, double bytes) {
  return transfer_cycles(device, bytes, device.host_bandwidth, constants().host_latency);
}

// The Streaming Memory of a machine that has none is on its host.
int64_t streaming_cycles(const Device& device, double bytes) {
  if (device.streaming_bandwidth == 0) return host_cycles(device, bytes);
  const Constants& k = constants();
  return transfer_cycles(device, bytes, device.streaming_bandwidth * k.streaming_efficiency,
                         k.streaming_latency);
}

int64_t code_bytes(const Device& device, int64_t instructions, int64_t vertices) {
  return (kInstructionBytes * instructions + kVertexBytes * vertices) * device.tiles;
}

}  // namespace poptorch::target
