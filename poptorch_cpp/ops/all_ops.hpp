// The registry of every op. Explicit calls add families: nothing registers itself.
#pragma once

namespace poptorch::ir {
class Registry;
}

namespace poptorch::ops {

// Returns all rows; made on first use, never changed.
const ir::Registry& registry();

void add_constant_ops(ir::Registry& r);
void add_elementwise_unary_ops(ir::Registry& r);
void add_elementwise_binary_ops(ir::Registry& r);
void add_matmul_ops(ir::Registry& r);
void add_conv_ops(ir::Registry& r);
void add_pool_ops(ir::Registry& r);
void add_roi_ops(ir::Registry& r);
void add_norm_ops(ir::Registry& r);
void add_softmax_ops(ir::Registry& r);
void add_reduce_ops(ir::Registry& r);
void add_scan_ops(ir::Registry& r);
void add_shape_ops(ir::Registry& r);
void add_index_ops(ir::Registry& r);
void add_loss_ops(ir::Registry& r);
void add_beam_search_ops(ir::Registry& r);
void add_point_ops(ir::Registry& r);
void add_attention_ops(ir::Registry& r);
void add_rnn_ops(ir::Registry& r);
void add_random_ops(ir::Registry& r);
void add_state_ops(ir::Registry& r);
void add_update_ops(ir::Registry& r);
void add_stream_ops(ir::Registry& r);
void add_collective_ops(ir::Registry& r);
void add_call_ops(ir::Registry& r);
void add_foreign_ops(ir::Registry& r);
void add_custom_ops(ir::Registry& r);

}  // namespace poptorch::ops
