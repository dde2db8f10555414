// The op of a library that the user loaded, by domain, name and version; and the custom ops that
// come with the core, which are compositions of core ops.
#include "ops/all_ops.hpp"
#include "ops/custom_ops.hpp"
#include "ops/rules.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

CustomId custom_id(const Op& op) {
  return {op.attr<std::string>("domain"), op.attr<std::string>("name"),
          op.attr<int64_t>("version")};
}

CustomCall custom_call(const Op& op) {
  std::vector<Type> types;
  for (const Value* operand : op.operands()) types.push_back(operand->type());
  return CustomCall(custom_id(op), op.attr<std::string>("attributes"), std::move(types));
}

[[noreturn]] void fail_gradient(const Op& op, const std::string& text) {
  throw support::UserError(support::str("[autodiff] custom op ", title(custom_id(op)),
                                        ir::place_text(op.location), " ", text));
}

std::vector<Value*> custom_gradients(GradBuilder& g) {
  const auto gradient = custom_call(g.op()).gradient();
  if (!gradient) {
    fail_gradient(g.op(),
                  "has no gradient op, but a parameter's gradient passes through it. Declare one "
                  "(in Python: @op.gradient, with the op's name), or detach its inputs.");
  }
  std::vector<Value*> operands;
  for (const auto& [kind, index] : gradient->inputs) {
    const auto i = static_cast<size_t>(index);
    if (kind == POPTORCH_CUSTOM_OF_GRADIENT && !ir::is_float(g.y(i).type().dtype)) {
      fail_gradient(g.op(), support::str("has a gradient op that takes the gradient of output ", i,
                                         ", but that is ", g.y(i).type(), ", which has none."));
    }
    operands.push_back(kind == POPTORCH_CUSTOM_OF_INPUT    ? g.x(i)
                       : kind == POPTORCH_CUSTOM_OF_OUTPUT ? g.y(i)
                                                           : g.dy(i));
  }
  const Op* made = emit_custom(g.builder(), gradient->id, gradient->attributes, operands);
  std::vector<Value*> out(g.op().operand_count(), nullptr);
  for (size_t i = 0; i < gradient->of.size(); ++i) {
    const auto of = static_cast<size_t>(gradient->of[i]);
    const Type& wanted = g.x(of).type();
    if (!g.needs(of) || !ir::is_float(wanted.dtype)) continue;
    out[of] = made->result(i);
    if (!(out[of]->type() == wanted)) {
      fail_gradient(g.op(), support::str("has a gradient op that gives ", out[of]->type(),
                                         " for input ", of, ", which is ", wanted, "."));
    }
  }
  return out;
}

// Computes y[..., i] = data[..., indices[..., i]]. Ignores all attributes.
Op* fast_gather_last_dim(ir::Builder& builder, const std::vector<Value*>& inputs) {
  const auto fail = [](const std::string& text) {
    throw support::UserError("[custom_op] FastGatherLastDim " + text);
  };
  if (inputs.size() != 2) {
    fail(support::str("takes 2 inputs, data and indices, but got ", inputs.size(), "."));
  }
  const Type &data = inputs[0]->type(), &indices = inputs[1]->type();
  if (!ir::is_integer(indices.dtype)) {
    fail(support::str("takes integers as indices but got ", indices, ". Cast them."));
  }
  const auto leading = [](const Type& type) {
    return Shape(type.shape.begin(), type.shape.end() - (type.shape.empty() ? 0 : 1));
  };
  if (data.rank() != indices.rank() || data.rank() == 0 || leading(data) != leading(indices)) {
    fail(support::str("takes data and indices whose shapes are equal but for the last dimension, ",
                      "but got ", data, " and ", indices, "."));
  }
  Value* places = inputs[1];
  if (indices.dtype != DType::kI32) {
    places = builder.value("cast", {places}, {{"dtype", DType::kI32}});
  }
  return builder.emit("gather", {inputs[0], places}, {{"axis", data.rank() - 1}});
}

}  // namespace

ir::Op* emit_custom(ir::Builder& builder, const CustomId& id, const std::string& attributes,
                    std::vector<ir::Value*> inputs) {
  if (id == fast_gather_last_dim_id()) return fast_gather_last_dim(builder, inputs);
  std::vector<Type> types;
  for (const Value* input : inputs) types.push_back(input->type());
  const CustomCall call(id, attributes, std::move(types));
  for (int32_t i : call.summed_inputs()) {
    inputs[i] = builder.value("all_reduce", {inputs[i]});
  }
  return builder.emit("custom", std::move(inputs),
                      {{"domain", id.domain},
                       {"name", id.name},
                       {"version", id.version},
                       {"attributes", attributes}});
}

void add_custom_ops(Registry& r) {
  r.add({.name = "custom",
         .doc = "An op of a library that the user loaded (docs/custom-ops.md).",
         .role = Role::kOpaque,
         .inputs = {"xs: any*"},
         .outputs = {"ys*"},
         .attrs = {{"domain", AttrType::kString, std::nullopt, {}, "with name and version: which"},
                   {"name", AttrType::kString},
                   within({"version", AttrType::kInt, int64_t{1}}, 0, INT32_MAX),
                   {"attributes",
                    AttrType::kString,
                    std::string("{}"),
                    {},
                    "its own, as `{\"alpha\": 0.02}`"}},
         .infer =
             [](const InferContext& c) {
               std::vector<Type> types;
               for (size_t i = 0; i < c.operand_count(); ++i) {
                 if (!c.has(i)) c.fail("none of its operands may be absent.");
                 types.push_back(c.operand(i));
               }
               const CustomId id{c.attr<std::string>("domain"), c.attr<std::string>("name"),
                                 c.attr<int64_t>("version")};
               return CustomCall(id, c.attr<std::string>("attributes"), std::move(types)).outputs();
             },
         .grad = custom_gradients,
         .cost = [](const Op& op) { return custom_call(op).cost(); },
         .provider = "custom"});
}

}  // namespace poptorch::ops
