// Folds constants by the reference kernels, where these are bit-identical to every other kernel.
#include "ir/builder.hpp"
#include "ir/memory_writes.hpp"
#include "ir/roles.hpp"
#include "reference/evaluate.hpp"
#include "reference/reference.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::Literal;
using ir::Op;
using ir::Value;

// A constant that grows beyond this costs more memory than computing it costs time.
constexpr int64_t kLargestGrown = 1 << 20;  // bytes

bool is_foldable(const Op& op, const ir::MemoryWrites& writes) {
  if (op.role() == ir::Role::kConstant || op.unused() || !op.after().empty()) return false;
  int64_t given = 0, made = 0;
  for (const Value* operand : op.operands()) {
    if (operand && !ir::literal_of(operand)) return false;
    if (operand) given += operand->type().bytes();
  }
  std::vector<std::optional<ir::Type>> inputs;
  for (const Value* operand : op.operands()) {
    inputs.push_back(operand ? std::optional(operand->type()) : std::nullopt);
  }
  std::vector<ir::Type> outputs;
  for (size_t i = 0; i < op.result_count(); ++i) {
    if (writes.is_written(op.result(i))) return false;
    outputs.push_back(op.result(i)->type());
    made += outputs.back().bytes();
  }
  // A kernel reads a broadcast scalar faster than the tensor that it stands for.
  if (made > given && (op.role() == ir::Role::kBroadcast || made > kLargestGrown)) return false;
  return reference::is_bits_exact(op.def(), inputs, outputs);
}

std::vector<Literal> evaluate(const Op& op) {
  std::vector<const Literal*> operands;
  for (const Value* operand : op.operands()) {
    operands.push_back(operand ? ir::literal_of(operand) : nullptr);
  }
  return reference::evaluate(op, operands);
}

void fold(ir::Graph& graph) {
  const ir::MemoryWrites writes(graph);
  for (Op* op : graph.ops()) {
    if (!is_foldable(*op, writes)) continue;
    ir::Builder builder(graph, op);
    builder.copy_context(*op);
    builder.forward_id = op->forward_id;
    const std::vector<Literal> literals = evaluate(*op);
    for (size_t i = 0; i < literals.size(); ++i) {
      if (op->result(i)->uses().empty()) continue;
      Value* constant = builder.constant(literals[i]);
      constant->set_name(op->result(i)->name());
      op->result(i)->replace_all_uses_with(constant);
    }
    graph.erase(op);
  }
}

}  // namespace

void fold_constants(ir::Module& module) {
  for (const auto& graph : module.graphs()) fold(*graph);
}

}  // namespace poptorch::transforms
