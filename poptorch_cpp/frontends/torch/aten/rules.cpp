// The registry of aten rows.
#include "frontends/torch/aten/rules.hpp"

#include <algorithm>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {

void Rules::add(std::string name, Rule rule) {
  const auto [row, added] = rows_.emplace(std::move(name), std::move(rule));
  if (!added)
    throw support::InternalError("[tracer] two aten rows are named '" + row->first + "'.");
}

void Rules::compose(std::string name, Rule rule) {
  add(std::move(name), [rule = std::move(rule)](Call& c) { return in_f32(c, rule); });
}

const Rule* Rules::find(const std::string& name, const std::string& overload) const {
  std::string_view functional = overload;
  if (functional.ends_with("_out")) functional.remove_suffix(4);
  for (const std::string_view of : {std::string_view(overload), functional}) {
    const auto exact = rows_.find(support::str(name, ".", of));
    if (exact != rows_.end()) return &exact->second;
  }
  const auto any = rows_.find(name);
  return any == rows_.end() ? nullptr : &any->second;
}

std::vector<std::string> Rules::names() const {
  std::vector<std::string> result;
  for (const auto& [name, rule] : rows_) result.push_back(name);
  std::sort(result.begin(), result.end());
  return result;
}

const Rules& all_rules() {
  static const Rules rules = [] {
    Rules all;
    add_elementwise_rules(all);
    add_binary_rules(all);
    add_activation_rules(all);
    add_matmul_rules(all);
    add_conv_rules(all);
    add_norm_rules(all);
    add_reduce_rules(all);
    add_shape_rules(all);
    add_upsample_rules(all);
    add_creation_rules(all);
    add_index_rules(all);
    add_embedding_bag_rules(all);
    add_subscript_rules(all);
    add_loss_rules(all);
    add_attention_rules(all);
    add_recurrent_rules(all);
    add_random_rules(all);
    add_custom_rules(all);
    add_collective_rules(all);
    add_own_rules(all);
    add_graph_rules(all);
    return all;
  }();
  return rules;
}

std::vector<TensorValue> in_f32(Call& c, const Rule& rule) {
  const auto half = c.common_half();
  if (!half) return rule(c);
  c.widen(half);
  std::vector<TensorValue> results = rule(c);
  c.widen({});
  if (c.given("dtype")) return results;
  for (TensorValue& result : results) {
    if (result && result.dtype == DType::kF32) result = {c.cast(result.value, *half), *half};
  }
  return results;
}

Rule direct(std::string op) {
  return [op](Call& c) -> std::vector<TensorValue> {
    const TensorValue x = c.tensor(0);
    return {{c.emit(op, {x.value}), x.dtype}};
  };
}

Rule direct_float(std::string op) {
  return [op](Call& c) -> std::vector<TensorValue> {
    TensorValue x = c.tensor(0);
    if (!ir::is_float(x.dtype) && !ir::is_complex(x.dtype)) x.dtype = c.default_float();
    return {{c.emit(op, {c.cast(x.value, x.dtype)}), x.dtype}};
  };
}

DType product_type(Call& call, const std::vector<size_t>& operands) {
  const DType dtype = call.result_type(operands);
  if (!ir::is_float(dtype)) return dtype;
  for (const size_t operand : operands) {
    const DType given = call.tensor(operand).dtype;
    if (ir::is_float(given)) continue;
    call.fail(support::str("expected operands of the same kind of dtype but got ", given, " and ",
                           dtype, ". Cast the former, as in x.float()."));
  }
  return dtype;
}

DType layer_type(Call& call, const std::vector<size_t>& operands) {
  const DType common = product_type(call, operands), given = call.tensor(operands[0]).dtype;
  return ir::is_float(given) ? given : common;
}

Rule direct_binary(std::string op) {
  return [op](Call& c) -> std::vector<TensorValue> {
    const DType dtype = c.result_type({0, 1});
    return {{c.emit(op, {c.operand(0, dtype), c.operand(1, dtype)}), dtype}};
  };
}

}  // namespace poptorch::frontend
