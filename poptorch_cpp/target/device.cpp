// The three profiles, and a four-tile version of each for models of the machine. Sources: [A]
// Graphcore, "IPU Programmer's Guide", hardware overview; [B] IPU-M2000 and Bow-2000 datasheets;
// [C] C2 card datasheet (Mk1); [D] derived: peak / (tiles · 2 · clock).
#include "target/device.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::target {
namespace {

constexpr int64_t kKiB = 1024;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

// A tile's vector unit is 64 bits wide: two floats or four halves a cycle [A].
constexpr double kVectorBytesPerCycle = 8;
// These are model assumptions, not published figures. A vertex is one launch of the workers of all
// tiles, with the exchange synchronisation around it; the latency is for leaving the chip.
constexpr double kVertexCycles = 150;
constexpr double kTransferLatencyCycles = 1000;
// These are assumptions per tile: control and vertex state of an instruction; code and exchange of
// a kind.
constexpr int64_t kInstructionBytes = 8;
constexpr int64_t kVertexBytes = 128;

// A Bow-2000 has 2 × 100 Gb/s each way for its four IPUs [B]. The other machines are assumed to be
// joined in the same way.
constexpr double kGatewayBandwidth = 2 * (2 * 100 * kGiga / 8) / 4;

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
             .clock = 1.6 * kGiga,             // [C]
             .half_macs_per_cycle = 32,        // [D] from 124.5 TFLOP/s
             .float_macs_per_cycle = 8,        // [D] from 31.1 TFLOP/s
             .sram_bandwidth = 45 * kTera,     // [C]
             .exchange_bandwidth = 8 * kTera,  // [C]
             .link_bandwidth = 320 * kGiga,    // [C]
             .gateway_bandwidth = kGatewayBandwidth,
             .host_bandwidth = 64 * kGiga,  // [C] PCIe 4 x16, both directions
             .streaming_memory = 0};        // [C]
  Device mk2{.name = "ipu2",
             .title = "Mk2 (GC200)",
             .version = 2,
             .tiles = 1472,                    // [B]
             .workers_per_tile = 6,            // [A]
             .sram_per_tile = 624 * kKiB,      // [B]
             .clock = 1.33 * kGiga,            // [B]
             .half_macs_per_cycle = 64,        // [B] 250 TFLOP/s
             .float_macs_per_cycle = 16,       // [B] 62.5 TFLOP/s
             .sram_bandwidth = 47.5 * kTera,   // [B]
             .exchange_bandwidth = 8 * kTera,  // [B]
             .link_bandwidth = 320 * kGiga,    // [B]
             .gateway_bandwidth = kGatewayBandwidth,
             .host_bandwidth = 64 * kGiga,                            // [B]
             .streaming_memory = int64_t{448} * 1000 * 1000 * 1000};  // [B] up to
  Device bow = mk2;
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

int64_t rounded(double cycles) { return std::llround(std::min(cycles, kMostCycles)); }

double cycles_of(const Device& device, double bytes, double bandwidth) {
  return bytes / bandwidth * device.clock;
}

}  // namespace

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
  throw support::UserError(support::str("[device] there is no device '", name,
                                        "'. The known ones are ", support::join(known, ", "), "."));
}

int64_t compute_cycles(const Device& device, const Work& work) {
  const double lanes =
      work.matrix_unit ? 2 * (work.half ? device.half_macs_per_cycle : device.float_macs_per_cycle)
                       : kVectorBytesPerCycle / (work.half ? 2 : 4);
  const double arithmetic = work.flops / (lanes * device.tiles);
  const double memory = cycles_of(device, work.bytes, device.sram_bandwidth);
  const double exchange = work.local ? 0 : cycles_of(device, work.bytes, device.exchange_bandwidth);
  const double launch = work.joins ? 0 : kVertexCycles;
  return rounded(std::max({arithmetic, memory, exchange}) + launch);
}

int64_t transfer_cycles(const Device& device, double bytes, double bandwidth) {
  return rounded(cycles_of(device, bytes, bandwidth) + kTransferLatencyCycles);
}

int64_t code_bytes(const Device& device, int64_t instructions, int64_t vertices) {
  return (kInstructionBytes * instructions + kVertexBytes * vertices) * device.tiles;
}

}  // namespace poptorch::target
