// Checks every new op, and implements the operators of Val.
#include "ir/builder.hpp"

#include "ir/op_def.hpp"
#include "ir/row_checks.hpp"
#include "support/watch.hpp"

namespace poptorch::ir {
namespace {

Val binary(const char* op, Val a, Val b) { return {a.builder->value(op, {a, b}), a.builder}; }

Val like(Val a, double number) { return {a.builder->scalar(a.type().dtype, number), a.builder}; }

}  // namespace

std::vector<Type> infer_types(const OpDef& def, std::vector<const Type*> operands,
                              const Attrs& attrs, const Module* module, std::vector<Type> stated) {
  check_operands(def, operands);
  check_attrs(def, attrs);
  InferContext context(def, std::move(operands), attrs, module);
  context.stated = std::move(stated);
  std::vector<Type> results = def.infer(context);
  check_results(def, results);
  return results;
}

std::vector<Type> infer_types(const OpDef& def, const std::vector<Value*>& operands,
                              const Attrs& attrs, const Module* module, std::vector<Type> stated) {
  // Every long part of a compilation calls this function or Graph::insert.
  support::check_interrupt();
  std::vector<const Type*> types;
  types.reserve(operands.size());
  for (Value* operand : operands) types.push_back(operand ? &operand->type() : nullptr);
  return infer_types(def, std::move(types), attrs, module, std::move(stated));
}

void Builder::copy_context(const Op& op) {
  placement = op.placement;
  location = op.location;
  scope = op.scope;
  labels = op.labels;
}

Op* Builder::emit(std::string_view name, std::vector<Value*> operands, Attrs attrs,
                  std::vector<Type> stated) {
  Module& module = graph_->module();
  const OpDef& def = module.registry().get(name);
  while (!operands.empty() && !operands.back()) operands.pop_back();
  auto types = infer_types(def, operands, attrs, &module, std::move(stated));
  Op* op = graph_->insert(def, std::move(operands), std::move(attrs), std::move(types), before_);
  op->placement = placement;
  op->location = location;
  op->scope = scope;
  op->labels = labels;
  op->forward_id = forward_id;
  op->mark_checked();
  return op;
}

Value* Builder::value(std::string_view name, std::vector<Value*> operands, Attrs attrs,
                      std::vector<Type> stated) {
  return emit(name, std::move(operands), std::move(attrs), std::move(stated))->result(0);
}

Value* Builder::constant(Literal literal) { return value("constant", {}, {{"value", literal}}); }

Value* Builder::scalar(DType dtype, double number) {
  return constant(Literal::scalar(dtype, number));
}

Value* Builder::variable(StateSlot slot) {
  const StateSlot& known = graph_->module().add_state(std::move(slot));
  Value* out = value("variable", {}, {{"name", known.name.text()}}, {known.type});
  out->set_name(known.name.text());
  return out;
}

Val operator+(Val a, Val b) { return binary("add", a, b); }
Val operator-(Val a, Val b) { return binary("sub", a, b); }
Val operator*(Val a, Val b) { return binary("mul", a, b); }
Val operator/(Val a, Val b) { return binary("div", a, b); }
Val operator-(Val a) { return {a.builder->value("neg", {a}), a.builder}; }
Val operator+(Val a, double b) { return a + like(a, b); }
Val operator-(Val a, double b) { return a - like(a, b); }
Val operator-(double a, Val b) { return like(b, a) - b; }
Val operator*(Val a, double b) { return a * like(a, b); }
Val operator*(double a, Val b) { return like(b, a) * b; }
Val operator/(Val a, double b) { return a / like(a, b); }
Val operator/(double a, Val b) { return like(b, a) / b; }

Val GradBuilder::seen(Val value) const {
  if (!widens_ || !is_half(value.type().dtype)) return value;
  return emit("cast", {value}, {{"dtype", DType::kF32}});
}

Val GradBuilder::dy(size_t i) const {
  if (output_grads_[i]) return seen({output_grads_[i], &builder_});
  const Type& type = op_.result(i)->type();
  Value* zero = builder_.scalar(widens_ && is_half(type.dtype) ? DType::kF32 : type.dtype, 0.0);
  if (type.shape.empty()) return {zero, &builder_};
  return emit("broadcast_to", {zero}, {{"shape", Ints(type.shape)}});
}

Val GradBuilder::unbroadcast(Val grad, const Type& to) const {
  const Shape& from = grad.type().shape;
  if (from == to.shape) return grad;
  const size_t lead = from.size() - to.shape.size();
  Ints axes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i < lead || (to.shape[i - lead] == 1 && from[i] != 1)) {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  Val out = axes.empty() ? grad : emit("sum", {grad}, {{"axes", axes}, {"keepdims", false}});
  if (out.type().shape == to.shape) return out;
  return emit("reshape", {out}, {{"shape", Ints(to.shape)}});
}

}  // namespace poptorch::ir
