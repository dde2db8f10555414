// The parts of a KernelSet, each defined by a file of this folder.
#pragma once

#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Conversions between halves in memory and floats in registers; `narrow` rounds floats to halves.
struct HalfConversions {
  MicroFn load, store, narrow;
};

extern const GemmRoutines kGemmRoutines;
extern const HalfConversions kHalfConversions;
extern const HalfBlocks kHalfBlocks;
extern const Conversions kConversions;
extern const JoinedSteps kJoinedSteps;
extern const std::array<Choice, 6> kChoices;
extern const std::array<JoinedPair, 20> kPairs;
extern const RandomRoutines kRandomRoutines;

MicroFn rounding_at_random(ir::DType dtype);

void depthwise_pixels(const DepthwiseRun& run, int64_t pixels, float* y, const Ending* ending);
void depthwise_halves(const HalfDepthwiseRun& run, int64_t pixels, const HalfEnding& ending);
void ordered_sums(const OrderedSums& operands, int64_t rows, int64_t columns,
                  const HalfEnding& ending);
void add_row_products(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t n,
                      int64_t channels, int64_t width, float* y);

std::unique_ptr<BoundKernel> bind_scatter_columns(const KernelRequest& request);

void add_rounding_rows(std::vector<MicroRow>& rows);
void add_unary_rows(std::vector<MicroRow>& rows);
void add_binary_rows(std::vector<MicroRow>& rows);
void add_function_rows(std::vector<MicroRow>& rows);
void add_update_rows(std::vector<MicroRow>& rows);
void add_attention_kernels(KernelTable& table);
void add_batch_norm_kernels(KernelTable& table);
void add_group_norm_kernels(KernelTable& table);
void add_layer_norm_kernels(KernelTable& table);
void add_loss_kernels(KernelTable& table);
void add_order_kernels(KernelTable& table);
void add_pool_kernels(KernelTable& table);
void add_recurrent_kernels(KernelTable& table);
void add_recurrent_gradients(KernelTable& table);
void add_reduce_kernels(KernelTable& table);
void add_scan_kernels(KernelTable& table);
void add_search_kernels(KernelTable& table);
void add_softmax_kernels(KernelTable& table);

}  // namespace poptorch::emulator::inline POPTORCH_SET
