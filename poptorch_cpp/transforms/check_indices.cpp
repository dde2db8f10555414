// Inserts a check before every op that reads or writes by index. Gradient ops take the same indices
// as their forward op, so that they need no check.
#include "ir/builder.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {

void check_indices(ir::Module& module) {
  if (!module.execution().check_indices) return;
  for (const auto& graph : module.graphs()) {
    for (ir::Op* op : graph->op_list()) {
      if (!op->def().indices || op->forward_id != 0) continue;
      ir::Builder builder(*graph, op);
      builder.copy_context(*op);
      for (const auto& [operand, places] : op->def().indices(*op)) {
        builder.emit("check_indices", {op->operand(operand)},
                     {{"places", places}, {"op", op->name()}});
      }
    }
  }
}

}  // namespace poptorch::transforms
