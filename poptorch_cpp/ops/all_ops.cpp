// Lists the families.
#include "ops/all_ops.hpp"

#include "ir/op_def.hpp"

namespace poptorch::ops {

const ir::Registry& registry() {
  static const ir::Registry* instance = [] {
    auto* r = new ir::Registry();
    add_constant_ops(*r);
    add_elementwise_unary_ops(*r);
    add_elementwise_binary_ops(*r);
    add_matmul_ops(*r);
    add_conv_ops(*r);
    add_pool_ops(*r);
    add_roi_ops(*r);
    add_softmax_ops(*r);
    add_reduce_ops(*r);
    add_scan_ops(*r);
    add_shape_ops(*r);
    add_norm_ops(*r);
    add_index_ops(*r);
    add_loss_ops(*r);
    add_beam_search_ops(*r);
    add_point_ops(*r);
    add_attention_ops(*r);
    add_rnn_ops(*r);
    add_random_ops(*r);
    add_state_ops(*r);
    add_update_ops(*r);
    add_stream_ops(*r);
    add_collective_ops(*r);
    add_call_ops(*r);
    add_custom_ops(*r);
    add_foreign_ops(*r);
    return r;
  }();
  return *instance;
}

}  // namespace poptorch::ops
