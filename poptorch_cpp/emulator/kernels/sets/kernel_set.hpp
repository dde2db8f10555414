// The kernels of one instruction set: everything that the files of this folder export. They are
// compiled once for each set of POPTORCH_SETS (poptorch_cpp/CMakeLists.txt).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/tile_ops.hpp"

namespace poptorch::reference {
class Philox;
}

namespace poptorch::emulator {

class BoundKernel;
class KernelTable;
struct KernelRequest;

// All routines but `dots`, and `packed` where it multiplies matrices, sum in the same order on
// every instruction set. `packed` does that with bfloat16, and with float16 by parts.
constexpr int64_t kDepth = 256;  // of k at a time: a panel of b then fits in half of L1
constexpr int64_t kRowBlock = 96;
constexpr int64_t kRowsDepth = 64;  // of k at a time where b is not packed: its rows stay in L2

struct GemmRoutines {
  decltype(&pack_panels) pack;
  decltype(&gemm_packed) packed;
  decltype(&gemm_half_partials) half_partials;
  decltype(&gemm_rows) rows;
  decltype(&gemm_dots) dots;
  bool multiplies_pairs;     // of bfloat16, which are then packed in words
  bool multiplies_matrices;  // of bfloat16, so that packed() may sum in another order
};

// The functions of the same names in tile_ops.hpp.
struct Conversions {
  decltype(&load_fn) load;
  decltype(&store_fn) store;
  decltype(&cast_fn) cast;
  decltype(&narrow_fn) narrow;
  decltype(&round_at_random_fn) round_at_random;
  MicroFn copy_held;
};

// A joined step of an optimiser over memory, and on a product in registers.
struct JoinedStep {
  MicroFn fn = nullptr;
  ProductForm product = {};
};

// The steps that replace several micro-ops of an optimiser (tile/tile_shorten.cpp). Indices are
// bools.
struct JoinedSteps {
  MicroFn moving_average[2][2];  // rounded to half; of squares
  MicroFn root_ratio[2];         // rounded to half
  JoinedStep adam[2][2][2];      // m rounded to half; the ratio rounded; m held as halves
};

// A step that replaces a comparison of floats and a select by its result.
struct Choice {
  std::string_view comparison;    // the op
  MicroFn fn, held_fn = nullptr;  // on the comparison's operands, then the select's
};

// A step that replaces two operations on floats, the first of which makes operand `place` of the
// second. Its sources are those of the first, then the other one of the second.
struct JoinedPair {
  std::string_view first, second;  // the ops
  int place;
  MicroFn fn, held_fn, random_fn;  // see MicroRow
};

// The operands of a depthwise convolution for neighbouring output pixels with the same taps. Tap t
// of pixel p multiplies x[p * step + from[t] + c] by w[with[t] + c] for each channel c. `bias` may
// be nullptr. If groups have `width` channels, channel c sums over those of its group: the j-th is
// multiplied by w[with[t] + j * channels + c].
struct DepthwiseRun {
  const float *x, *w, *bias;
  const int64_t *from, *with;
  int taps;
  int64_t channels, step, width = 1;
};

// Sums for `pixels` output pixels of a run, in the order of the taps. Sums go to y, where pixels
// follow each other, or to the ending if it is not nullptr.
using DepthwisePixels = void (*)(const DepthwiseRun& run, int64_t pixels, float* y,
                                 const Ending* ending);

// The same for halves x. The taps of sum s end at ends[s]; later sums are added to the first one,
// and the bias to their total. With one sum, the sum begins at the bias.
struct HalfDepthwiseRun {
  const uint16_t* x;
  const float *w, *bias;
  const int64_t *from, *with;
  const int* ends;
  int sums;
  int64_t channels, step;
};
using DepthwiseHalves = void (*)(const HalfDepthwiseRun& run, int64_t pixels, const HalfEnding&);

// The operands of a product of float16 with several sums for each output. Product k of output (i,
// j) is a[i * a_row + places[k]] times row k of column j in the packed panels, which have `depth`
// rows. The products of sum s end at ends[s]; later sums are added to the first one, and the bias,
// which may be nullptr, to their total.
struct OrderedSums {
  const float* a;
  int64_t a_row;
  const int32_t* places;
  const int64_t* ends;
  int sums;
  const uint16_t* packed;
  int64_t depth;
  const float* bias;
};
using OrderedProduct = void (*)(const OrderedSums&, int64_t rows, int64_t columns,
                                const HalfEnding&);

// Ends rows of sums, which are `step` floats apart.
using EndRows = void (*)(const HalfEnding&, const float* sums, int64_t step, int64_t rows,
                         int64_t columns);
// Routines for blocks of f16, then those of bf16.
struct HalfBlocks {
  EndRows end_rows[2], end_rows_at_random[2];

  void end(const HalfEnding& ending, const float* sums, int64_t step, int64_t rows,
           int64_t columns) const {
    const EndRows* by_type = ending.rounding.at_random ? end_rows_at_random : end_rows;
    by_type[ending.element == Element::kBfloat](ending, sums, step, rows, columns);
  }
};

// Adds the products of n pixels of a and b, channel by channel, to y; steps lie between pixels.
// If groups have `width` channels, row j of y gets, for channel c, the products of b[c] and the
// j-th channel of a in the group of c.
using AddRowProducts = void (*)(const float* a, int64_t a_step, const float* b, int64_t b_step,
                                int64_t n, int64_t channels, int64_t width, float* y);

// Random numbers, kDrawnAtOnce of them: words of the sequence from number `first`, a multiple of 4,
// on; and numbers of a distribution made of such words.
constexpr int kDrawnAtOnce = 256;
struct RandomRoutines {
  void (*words)(const reference::Philox&, uint64_t first, uint32_t* numbers);
  void (*uniform)(const uint32_t* numbers, int digits, double low, double span, double* y);
  void (*normal)(const uint32_t* numbers, double mean, double std, double* y);
  // Writes floats such that rounding them to a half type rounds the doubles once.
  void (*to_odd)(const double* x, float* y);
};

struct KernelSet {
  std::string_view name;  // as in POPTORCH_MAX_CPU_ISA
  int64_t lanes;          // floats of a vector
  GemmRoutines gemm;
  Conversions conversions;
  JoinedSteps joined;
  std::array<Choice, 6> choices;
  std::array<JoinedPair, 20> pairs;
  RandomRoutines random;
  DepthwisePixels depthwise_pixels;
  DepthwiseHalves depthwise_halves;
  OrderedProduct ordered_sums;
  HalfBlocks half_blocks;
  AddRowProducts add_row_products;
  // Binds a scatter of elements; nullptr where its shapes do not allow to take columns apart.
  std::unique_ptr<BoundKernel> (*scatter_columns)(const KernelRequest&);
  void (*add_micro_rows)(std::vector<MicroRow>&);
  void (*add_kernels)(KernelTable&);
};

// Returns the sets of this build that the host can run, the widest last. Throws UnsupportedError
// if it cannot run the first: all other kernels are compiled for that one.
std::span<const KernelSet* const> host_kernel_sets();

// Returns the widest of them that POPTORCH_MAX_CPU_ISA allows; every call returns the same. Throws
// UserError if the variable names a set that is narrower than the first.
const KernelSet& kernel_set();

}  // namespace poptorch::emulator
