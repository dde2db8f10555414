// The row of poptorch.custom_op: an op of a library, whose functions infer the result types.
#include "frontends/torch/aten/rules.hpp"
#include "ops/custom_ops.hpp"

namespace poptorch::frontend {
namespace {

std::vector<TensorValue> custom(Call& c) {
  std::vector<Value*> inputs;
  for (const TensorValue& x : c.tensors(0)) inputs.push_back(x.value);
  const ops::CustomId id{c.text("domain"), c.text("name"), c.integer("version", 1)};
  const ir::Op* op = ops::emit_custom(c.builder(), id, c.text("attributes"), std::move(inputs));
  std::vector<TensorValue> results;
  for (size_t i = 0; i < op->result_count(); ++i) {
    results.push_back({op->result(i), op->result(i)->type().dtype});
  }
  return results;
}

}  // namespace

void add_custom_rules(Rules& r) { r.add("poptorch::custom_op", custom); }

}  // namespace poptorch::frontend
