// Sources: [JIA] Jia et al., "Dissecting the Graphcore IPU via Microbenchmarking" (GC2, 2019);
// [SPM] dense products of Graphcore's PopSparse benchmarks (read as GC200); [PLIB] costs that
// Graphcore's open-source libraries assume when they plan; [TRAIN] the published training rows
// that are not marked, see docs/machine.md.
#include "target/constants.hpp"

#include <vector>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::target {
namespace {

using C = Constants;
constexpr ConstantRow kConstants[] = {
    {"sync", &C::sync, 125, "cycles",
     "[JIA] a word from tile to tile with and without sync: 100 to 150 cycles"},
    {"launch", &C::launch, 376, "cycles",
     "control, exchange code and start of the workers of a step; fitted to [JIA] convolutions "
     "and [SPM] products",
     true},
    {"exchange_latency", &C::exchange_latency, 108, "cycles",
     "[JIA] one word from tile to tile: 59 to 157 cycles"},
    {"exchange_rate", &C::exchange_rate, 4, "bytes/tile/cycle",
     "[JIA] received by a tile: 3.96 measured, 4 nominal"},
    {"paired_exchange", &C::paired_exchange, 2, "factor",
     "[JIA] the same data to both tiles of a pair: 12.5 GB/s, twice the rate of one"},
    {"sum_rate", &C::sum_rate, 16, "bytes/tile/cycle",
     "[JIA] loads of a tile: 16 bytes a cycle, for the sum of partial results"},
    {"reduction", &C::reduction, 2418, "cycles",
     "[JIA] the sum of one value of each tile: 1.97 µs, less launch, exchange and sync"},
    {"summed_word", &C::summed_word, 1.15, "cycles/word",
     "[JIA] the sum of 25,000 values of 4 bytes on each tile: 6,756 GB/s on all tiles"},
    {"random_sample", &C::random_sample, 2.06, "cycles/element",
     "[JIA] random numbers: 944 G samples a second on all tiles"},
    {"matrix_floor_half", &C::matrix_floor_half, 135, "cycles",
     "the least time of a block of 16 inputs on GC200 and Bow, whatever its rows; fitted to [SPM] "
     "products of 4 and 16 columns. [PLIB] a call of a worker: 31 instructions of 6 cycles",
     true},
    {"matrix_floor_float", &C::matrix_floor_float, 218, "cycles",
     "the same in float32; fitted. [PLIB] a call of a worker: 47 instructions of 6 cycles", true},
    {"weight_rate", &C::weight_rate, 16, "bytes/cycle",
     "[PLIB] loading the weights of a block: 8 or 16 bytes a cycle"},
    {"weight_rate_mk1", &C::weight_rate_mk1, 8, "bytes/cycle",
     "[PLIB] the same on GC2, whose blocks have 8 outputs"},
    {"block_mk1", &C::block_mk1, 296, "cycles",
     "a call of the workers for a block on GC2; fitted to [JIA] convolutions with kernel 1. "
     "[PLIB] 31 to 47 instructions of 6 cycles, that is 186 to 282",
     true},
    {"position_mk1", &C::position_mk1, 1.601, "factor",
     "time of a row beside the peak on GC2: [JIA] reached 47 % of it in its largest product; "
     "fitted to [JIA] convolutions with kernel 1",
     true},
    {"kernel_block", &C::kernel_block, 109, "cycles",
     "[PLIB] fixed cost of the vertex for kernels larger than 1"},
    {"kernel_block_mk1", &C::kernel_block_mk1, 67.6, "cycles",
     "the same on GC2; fitted to [JIA] convolutions with kernel 3", true},
    {"kernel_position_mk1", &C::kernel_position_mk1, 0.821, "factor",
     "time of a row for kernels larger than 1 on GC2, beside that for kernel 1; fitted to [JIA] "
     "convolutions with kernel 3",
     true},
    {"kernel_row", &C::kernel_row, 63.1, "instructions",
     "a row of the image in a worker of the vertex for larger kernels; fitted to [JIA] "
     "convolutions of 56, 28, 14 and 7 columns. [PLIB] 31 to 47",
     true},
    {"vector_issue", &C::vector_issue, 1, "cycles",
     "[PLIB] an issue for each 64-bit vector, in addition to loads and store"},
    {"element_factor", &C::element_factor, 2.35, "factor",
     "time of operations on elements beside [PLIB]'s figures for busy workers; fitted to [TRAIN]",
     true},
    {"slice_start", &C::slice_start, 30, "cycles", "[PLIB] start of a multi-slice"},
    {"slice_row", &C::slice_row, 19, "cycles", "[PLIB] a row of a multi-slice"},
    {"slice_pair", &C::slice_pair, 2, "cycles", "[PLIB] two elements of a multi-slice"},
    {"link_efficiency", &C::link_efficiency, 0.85, "share",
     "[PLIB] assumed for IPU-Links; [JIA] 55.0 of 64 GB/s over four links"},
    {"link_latency", &C::link_latency, 0.575e-6, "seconds",
     "[JIA] one word to the neighbouring IPU with sync: 0.52 to 0.63 µs"},
    {"links", &C::links, 10, "links", "IPU-Links of an IPU: Bow-2000 datasheet and [PLIB]"},
    {"links_of_pair", &C::links_of_pair, 4, "links",
     "[JIA] used between the two IPUs of a card: 55.0 GB/s one way. Bow-2000 datasheet: of the 40 "
     "links of four IPUs, 8 lead out, so that 16 join the four pairs of a ring"},
    {"host_latency", &C::host_latency, 8.8e-6, "seconds", "[JIA] one word from the host: 8.8 µs"},
    {"gateway_latency", &C::gateway_latency, 1.76e-6, "seconds",
     "[JIA] one word across 16 IPUs: 1.76 µs; assumed for GW-Links"},
    {"streaming_efficiency", &C::streaming_efficiency, 0.526, "share",
     "of an IPU's part of the peak of its machine's memory; fitted to [TRAIN]", true},
    {"streaming_latency", &C::streaming_latency, 1.76e-6, "seconds",
     "the same, assumed for Streaming Memory"},
};

Constants& constants_in_use() {
  static Constants made = [] {
    Constants all;
    for (const ConstantRow& row : kConstants) all.*row.member = row.value;
    return all;
  }();
  return made;
}

}  // namespace

std::span<const ConstantRow> constant_rows() { return kConstants; }

const Constants& constants() { return constants_in_use(); }

double Constants::* constant_named(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ConstantRow& row : constant_rows()) {
    if (row.name == name) return row.member;
    known.push_back(row.name);
  }
  throw support::UserError(support::str("[target] the cost model does not have a constant '", name,
                                        "'. It has ", support::join(known, ", "), "."));
}

void replace_constant(std::string_view name, double value) {
  constants_in_use().*constant_named(name) = value;
}

}  // namespace poptorch::target
