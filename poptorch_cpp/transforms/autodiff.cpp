// Builds the gradients at the end of the forward graph, then moves them to a separate graph.
// The forward values that the gradients read determine the inputs of that graph.
#include "transforms/autodiff.hpp"

#include <algorithm>

#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"
#include "transforms/gradients.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;
using Kind = GradientConnection::Kind;

class Extraction {
 public:
  Extraction(Graph& forward, Graph& gradient, const std::vector<size_t>& provided)
      : out_{&forward, &gradient, provided, {}, {}} {}

  void provide(Value* output, const Value* seed) {
    values_[seed] = out_.gradient->add_input(seed->type(), seed->name());
    out_.inputs.push_back({Kind::kForwardGradient, output});
  }

  void copy(const Op& op) {
    std::vector<Value*> operands;
    for (Value* operand : op.operands()) operands.push_back(operand ? resolve(operand) : nullptr);
    std::vector<ir::Type> types;
    for (size_t i = 0; i < op.result_count(); ++i) types.push_back(op.result(i)->type());
    Op* copy = out_.gradient->insert(op.def(), std::move(operands), op.attrs(), std::move(types));
    copy->placement = op.placement;
    copy->take_origin(op);
    copy->forward_id = op.forward_id;
    for (size_t i = 0; i < op.result_count(); ++i) {
      copy->result(i)->set_name(op.result(i)->name());
      values_[op.result(i)] = copy->result(i);
    }
  }

  void require(Value* input, Value* gradient) {
    out_.gradient->add_output(resolve(gradient));
    out_.outputs.push_back({Kind::kForwardGradient, input});
  }

  GradientGraph take() { return std::move(out_); }

 private:
  // Returns the value of the gradient graph that stands for a value of the forward graph.
  Value* resolve(Value* value) {
    auto it = values_.find(value);
    if (it != values_.end()) return it->second;
    const Op* op = value->producer();
    if (op && op->def().is_leaf()) {
      copy(*op);
      return values_.at(value);
    }
    const auto& outputs = out_.forward->outputs();
    if (op && std::find(outputs.begin(), outputs.end(), value) == outputs.end()) {
      out_.forward->add_output(value);
    }
    out_.inputs.push_back({Kind::kForward, value});
    // The input is by value even if the forward graph takes a reference: the gradient graph writes
    // nothing.
    return values_[value] = out_.gradient->add_input(value->type(), value->name());
  }

  GradientGraph out_;
  support::FlatMap<const Value*, Value*> values_;
};

bool takes_more_than_it_uses(const Graph& graph) {
  const auto& inputs = graph.inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const auto& value) { return value->uses().empty(); });
}

// Inlines the calls after `mark` whose graphs do not use all inputs, so that the gradient graph
// does not need the unused ones. Entries of `gradients` that are results of such calls are
// replaced.
void inline_partial_users(Graph& forward, Op* mark, std::vector<Value*>& gradients) {
  for (Op* op = mark->next(); op;) {
    Op* call = op;
    op = op->next();
    if (call->role() != ir::Role::kCall || !takes_more_than_it_uses(ir::body_of(*call))) continue;
    Op* before = call->previous();
    const std::vector<Value*> results =
        ir::copy_ops(ir::body_of(*call), forward, call->operands(), call);
    for (Op* made = before->next(); made != call; made = made->next()) {
      made->take_unsaid(*call);
      if (made->forward_id == 0) made->forward_id = call->forward_id;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      std::replace(gradients.begin(), gradients.end(), call->result(i), results[i]);
      call->result(i)->replace_all_uses_with(results[i]);
    }
    forward.erase(call);
  }
}

ir::Symbol unused_name(const ir::Module& module, const std::string& base) {
  std::string name = base;
  for (int i = 1; module.find_graph(name); ++i) name = support::str(base, "_", i);
  return name;
}

}  // namespace

GradientGraph autodiff(Graph& forward, const std::vector<size_t>& provided,
                       const std::vector<Value*>& required) {
  ir::Module& module = forward.module();
  Graph& gradient = module.add_graph(unused_name(module, forward.name().text() + "_gradient"));
  Extraction extraction(forward, gradient, provided);
  const size_t input_count = forward.inputs().size();
  std::vector<GradientSeed> seeds;
  for (size_t index : provided) {
    Value* output = forward.outputs()[index];
    Value* seed = forward.add_input(output->type(), "d_" + output->name());
    seeds.push_back({output, seed});
  }
  Op* const mark = forward.insert(module.registry().get("constant"), {}, {{"value", ir::Literal()}},
                                  {ir::Type{}});
  std::vector<Value*> gradients = add_gradients(forward, seeds, required);
  inline_partial_users(forward, mark, gradients);
  // Reads the outputs again, because a differentiated call has been replaced.
  for (size_t i = 0; i < seeds.size(); ++i) {
    extraction.provide(forward.outputs()[provided[i]], seeds[i].gradient);
  }
  for (const Op* op = mark->next(); op; op = op->next()) extraction.copy(*op);
  for (size_t i = 0; i < required.size(); ++i) {
    if (gradients[i]) extraction.require(required[i], gradients[i]);
  }
  while (forward.last() != mark) forward.erase(forward.last());
  forward.erase(mark);
  while (forward.inputs().size() > input_count) forward.erase_input(forward.inputs().size() - 1);
  return extraction.take();
}

}  // namespace poptorch::transforms
