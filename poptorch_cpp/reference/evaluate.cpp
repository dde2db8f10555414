#include "reference/evaluate.hpp"

#include "reference/reference.hpp"

namespace poptorch::reference {

std::vector<ir::Literal> evaluate(const ir::Op& op,
                                  const std::vector<const ir::Literal*>& operands) {
  std::vector<std::optional<ir::Type>> inputs;
  std::vector<ir::Type> outputs;
  std::vector<std::vector<std::byte>> results;
  std::vector<std::byte*> buffers;
  for (const ir::Literal* operand : operands) {
    inputs.push_back(operand ? std::optional(operand->type()) : std::nullopt);
    // Ops without effects only read their operands.
    buffers.push_back(operand ? const_cast<std::byte*>(operand->data()) : nullptr);
  }
  for (size_t i = 0; i < op.result_count(); ++i) {
    outputs.push_back(op.result(i)->type());
    results.emplace_back(static_cast<size_t>(outputs[i].bytes()));
    results.back().reserve(1);  // an address even where there is nothing
  }
  for (auto& result : results) buffers.push_back(result.data());
  run_reference({.op = op.def(),
                 .attrs = op.attrs(),
                 .inputs = inputs,
                 .outputs = outputs,
                 .buffers = buffers.data()});
  std::vector<ir::Literal> literals;
  for (size_t i = 0; i < results.size(); ++i) literals.emplace_back(outputs[i], results[i]);
  return literals;
}

}  // namespace poptorch::reference
