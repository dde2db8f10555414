// Implements builder.hpp: the checks that every new op passes, and the operators of Val.
#include "ir/builder.hpp"

#include <algorithm>

#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::ir {
namespace {

using support::str;
using support::UserError;

bool fits(const std::string& constraint, DType dtype) {
  if (constraint == "any") return true;
  if (constraint == "float") return is_float(dtype) || is_complex(dtype);
  if (constraint == "int") return is_integer(dtype);
  if (constraint == "bool") return dtype == DType::kBool;
  if (constraint == "number") return dtype != DType::kBool;
  return name(dtype) == constraint;
}

void check_operands(const OpDef& def, const std::vector<const Type*>& operands) {
  const auto& rows = def.operand_defs;
  const bool variadic = !rows.empty() && rows.back().variadic;
  if (operands.size() > rows.size() && !variadic) {
    throw UserError(
        str("[", def.name, "] takes ", rows.size(), " operands but got ", operands.size(), "."));
  }
  for (size_t i = 0; i < std::max(operands.size(), rows.size()); ++i) {
    const OperandDef& row = rows[std::min(i, rows.size() - 1)];
    const Type* type = i < operands.size() ? operands[i] : nullptr;
    if (!type) {
      if (row.optional || row.variadic) continue;
      throw UserError(str("[", def.name, "] operand '", row.name, "' is missing."));
    }
    if (!fits(row.constraint, type->dtype)) {
      throw UserError(str("[", def.name, "] operand '", row.name, "' must be ", row.constraint,
                          " but is ", *type, "."));
    }
  }
}

void check_attrs(const OpDef& def, const Attrs& attrs) {
  for (const auto& [key, value] : attrs) {
    const AttrDef* row = def.find_attr(key);
    if (!row) {
      std::vector<std::string> names;
      for (const auto& known : def.attrs) names.push_back(known.name);
      throw UserError(str("[", def.name, "] has no attribute '", key,
                          "'; it has: ", names.empty() ? "none" : support::join(names, ", "), "."));
    }
    if (type_of(value) != row->type) {
      throw UserError(str("[", def.name, "] attribute '", key, "' must be ", name(row->type),
                          " but is ", attr_text(value), "."));
    }
    if (row->allowed.empty()) continue;
    const auto& text = std::get<std::string>(value);
    if (std::find(row->allowed.begin(), row->allowed.end(), text) == row->allowed.end()) {
      throw UserError(str("[", def.name, "] attribute '", key, "' must be one of ",
                          support::join(row->allowed, ", "), " but is '", text, "'."));
    }
  }
  for (const auto& row : def.attrs) {
    if (!row.default_value && !attrs.find(row.name)) {
      throw UserError(str("[", def.name, "] attribute '", row.name, "' is required."));
    }
  }
}

Val binary(const char* op, Val a, Val b) { return {a.builder->value(op, {a, b}), a.builder}; }

Val like(Val a, double number) { return {a.builder->scalar(a.type().dtype, number), a.builder}; }

}  // namespace

std::vector<Type> infer_types(const OpDef& def, const std::vector<Value*>& operands,
                              const Attrs& attrs, const Module* module, std::vector<Type> stated) {
  // Whatever a compilation does for long, it comes by here or by Graph::insert.
  support::check_interrupt();
  std::vector<const Type*> types;
  types.reserve(operands.size());
  for (Value* operand : operands) types.push_back(operand ? &operand->type() : nullptr);
  check_operands(def, types);
  check_attrs(def, attrs);
  InferContext context(def, std::move(types), attrs, module);
  context.stated = std::move(stated);
  return def.infer(context);
}

void Builder::copy_context(const Op& op) {
  placement = op.placement;
  location = op.location;
  scope = op.scope;
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
  op->forward_id = forward_id;
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

Val GradBuilder::dy(size_t i) const {
  if (output_grads_[i]) return {output_grads_[i], &builder_};
  const Type& type = op_.result(i)->type();
  Value* zero = builder_.scalar(type.dtype, 0.0);
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
