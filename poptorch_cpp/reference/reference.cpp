// The table of kernels.
#include "reference/reference.hpp"

#include <algorithm>

#include "ir/op_def.hpp"
#include "reference/kernels.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::reference {

std::string_view Args::op() const { return call_.op.name; }

const ir::Attr& Args::attr_value(ir::Symbol name) const {
  const ir::Attr* given = call_.attrs.find(name);
  return given ? *given : *call_.op.find_attr(name)->default_value;
}

const Kernel* find_kernel(std::string_view op) {
  static const Table* table = [] {
    auto* all = new Table;
    for (auto* add :
         {add_elementwise_kernels, add_matmul_kernels, add_conv_kernels,      add_pool_kernels,
          add_roi_kernels,         add_norm_kernels,   add_softmax_kernels,   add_loss_kernels,
          add_beam_search_kernels, add_point_kernels,  add_reduce_kernels,    add_order_kernels,
          add_shape_kernels,       add_index_kernels,  add_attention_kernels, add_rnn_kernels,
          add_random_kernels,      add_check_kernels,  add_print_kernels,     add_state_kernels}) {
      add(*all);
    }
    return all;
  }();
  auto row = table->find(op);
  return row == table->end() ? nullptr : &row->second;
}

bool is_bits_exact(const ir::OpDef& op, const std::vector<std::optional<ir::Type>>& inputs,
                   const std::vector<ir::Type>& outputs) {
  const Kernel* kernel = find_kernel(op.name);
  if (!kernel || op.random || op.has_effect()) return false;
  if (kernel->exact_floats) return true;
  bool floats = false;
  for (const auto& type : inputs) floats |= type && ir::is_float(type->dtype);
  for (const auto& type : outputs) floats |= ir::is_float(type.dtype);
  return !floats;
}

void run_reference(const KernelCall& call) {
  const Kernel* kernel = find_kernel(call.op.name);
  if (!kernel) {
    throw support::UnsupportedError(support::str("[kernel] op '", call.op.name,
                                                 "' has no kernel. Use another op in its place."));
  }
  // Kernels may assume that there is something to compute.
  const bool idle = !call.op.has_effect() && !call.outputs.empty() &&
                    std::all_of(call.outputs.begin(), call.outputs.end(),
                                [](const ir::Type& type) { return type.elements() == 0; });
  if (!idle) kernel->run(call);
}

}  // namespace poptorch::reference
