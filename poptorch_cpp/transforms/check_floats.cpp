// Inserts a check after every op that computes floating-point numbers.
#include "ir/builder.hpp"
#include "ir/op_def.hpp"
#include "support/strings.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::Op;
using ir::Role;
using ir::Value;

bool is_floating(const Value* value) { return value && ir::is_float(value->type().dtype); }

bool is_comparison(const Op& op) { return op.role() == Role::kComparison; }

void check(Op& op, Value* checked, std::vector<Value*> operands) {
  ir::Builder builder(op.graph(), op.next());
  builder.copy_context(op);
  builder.forward_id = op.forward_id;
  operands.insert(operands.begin(), checked);
  builder.emit(
      "check_floats", operands,
      {{"op", op.name()},
       {"scope", op.scope.text()},
       {"comparison", is_comparison(op)},
       {"line", op.location.empty() ? std::string()
                                    : support::str(op.location.file, ":", op.location.line)}});
}

void check_op(Op& op) {
  if (op.def().side_effect || op.def().runs_graphs()) return;
  // Operands that are accumulated or copied have been checked. In a pipeline, only the sum's own
  // stage may read it.
  if (op.role() == Role::kAccumulation || op.role() == Role::kCopy) return;
  std::vector<Value*> operands;
  for (Value* operand : op.operands()) {
    if (is_floating(operand)) operands.push_back(operand);
  }
  if (operands.empty()) return;
  // After the op, an operand that it writes in place no longer has its old value.
  for (int index : op.def().writes) {
    Value* written = op.operand(static_cast<size_t>(index));
    if (is_floating(written)) check(op, written, {});
  }
  if (!op.def().writes.empty()) return;
  if (is_comparison(op)) return check(op, operands[0], {operands.begin() + 1, operands.end()});
  for (size_t i = 0; i < op.result_count(); ++i) {
    if (is_floating(op.result(i))) check(op, op.result(i), operands);
  }
}

}  // namespace

void check_floats(ir::Module& module) {
  for (const auto& graph : module.graphs()) {
    for (Op* op : graph->op_list()) check_op(*op);
  }
}

}  // namespace poptorch::transforms
