// The table of one instruction set.
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/simd.hpp"

#define POPTORCH_TEXT(x) #x
#define POPTORCH_NAME(x) POPTORCH_TEXT(x)

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

void add_micro_rows(std::vector<MicroRow>& rows) {
  add_function_rows(rows);
  add_unary_rows(rows);
  add_binary_rows(rows);
  add_update_rows(rows);
  add_rounding_rows(rows);
}

void add_kernels(KernelTable& table) {
  add_attention_kernels(table);
  add_batch_norm_kernels(table);
  add_group_norm_kernels(table);
  add_layer_norm_kernels(table);
  add_loss_kernels(table);
  add_order_kernels(table);
  add_pool_kernels(table);
  add_recurrent_kernels(table);
  add_recurrent_gradients(table);
  add_reduce_kernels(table);
  add_scan_kernels(table);
  add_search_kernels(table);
  add_softmax_kernels(table);
}

}  // namespace

// A function, because the parts are constants of other files.
KernelSet kernels_of_set() {
  return {.name = POPTORCH_NAME(POPTORCH_SET),
          .lanes = kLanes,
          .gemm = kGemmRoutines,
          .conversions = kConversions,
          .joined = kJoinedSteps,
          .choices = kChoices,
          .pairs = kPairs,
          .random = kRandomRoutines,
          .depthwise_pixels = depthwise_pixels,
          .depthwise_halves = depthwise_halves,
          .ordered_sums = ordered_sums,
          .half_blocks = kHalfBlocks,
          .add_row_products = add_row_products,
          .scatter_columns = bind_scatter_columns,
          .add_micro_rows = add_micro_rows,
          .add_kernels = add_kernels};
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
