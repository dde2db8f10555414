// Implements function.hpp.
#include "frontends/torch/tracer/function.hpp"

#include <algorithm>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using ir::Graph;
using ir::Value;
using support::str;

// Orders values without addresses: graph inputs by place, others by op.
uint64_t key_of(const Value* value) {
  constexpr uint64_t kInput = uint64_t{1} << 63;
  const uint64_t op = value->producer() ? value->producer()->id() << 16 : kInput;
  return op | value->index();
}

Graph& fresh_graph(ir::Module& module, const std::string& name) {
  std::string candidate = name;
  for (int i = 1; module.find_graph(candidate); ++i) candidate = str(name, "_", i);
  return module.add_graph(candidate);
}

bool is_floating(const Value* value) { return ir::is_float(value->type().dtype); }

Value* zeros(ir::Builder& builder, const ir::Type& type) {
  Value* zero = builder.scalar(type.dtype, 0.0);
  if (type.shape.empty()) return zero;
  return builder.value("broadcast_to", {zero}, {{"shape", ir::Ints(type.shape)}});
}

}  // namespace

FunctionTrace::FunctionTrace(ir::Builder& builder, const std::string& name,
                             const std::vector<Value*>& operands)
    : builder_(builder),
      outer_(builder),
      name_(name),
      argument_count_(operands.size()),
      forward_(&fresh_graph(builder.graph().module(), name)) {
  builder_ = ir::Builder(*forward_);
  for (Value* operand : operands) {
    // An argument given twice has two stand-ins; the first one is found by bring().
    operands_.push_back(operand);
    forward_inputs_.emplace(key_of(operand), forward_->add_input(operand->type()));
  }
}

FunctionTrace::~FunctionTrace() { builder_ = outer_; }

Value* FunctionTrace::forward_input(Value* outer) {
  Value*& input = forward_inputs_[key_of(outer)];
  if (!input) {
    operands_.push_back(outer);
    input = forward_->add_input(outer->type());
  }
  return input;
}

Value* FunctionTrace::bring(Value* value) {
  if (&builder_.graph() == forward_) return forward_input(value);
  const bool is_forward = &value->graph() == forward_;
  // Keys of the forward and the outer graph do not meet but for inputs.
  if (!is_forward) value = forward_input(value);
  Value*& input = backward_inputs_[key_of(value)];
  if (!input) {
    captured_.push_back(value);
    input = backward_->add_input(value->type());
  }
  return input;
}

std::vector<Value*> FunctionTrace::begin_backward(const std::vector<Value*>& outputs) {
  for (Value* output : outputs) {
    // A result is a value of its own, even where forward returns its argument.
    results_.push_back(output->producer() ? output : builder_.value("identity", {output}));
  }
  output_count_ = outputs.size();
  backward_ = &fresh_graph(forward_->module(), name_ + "_backward_trace");
  builder_ = ir::Builder(*backward_);
  std::vector<Value*> gradients;
  for (Value* result : results_) {
    if (!is_floating(result)) {
      gradients.push_back(nullptr);
      continue;
    }
    captured_.push_back(nullptr);
    gradients.push_back(backward_->add_input(result->type()));
  }
  return gradients;
}

size_t FunctionTrace::result_index(Value* value) {
  const auto found = std::find(results_.begin(), results_.end(), value);
  if (found != results_.end()) return static_cast<size_t>(found - results_.begin());
  results_.push_back(value);
  return results_.size() - 1;
}

Graph& FunctionTrace::make_gradient_graph(const std::vector<Value*>& gradients) {
  for (Value* value : captured_) {
    if (value && value->producer()) result_index(value);
  }
  Graph& graph = fresh_graph(forward_->module(), name_ + "_gradient");
  std::vector<Value*> operands, results, result_gradients;
  for (Value* operand : operands_) operands.push_back(graph.add_input(operand->type()));
  for (Value* result : results_) results.push_back(graph.add_input(result->type()));
  for (Value* result : results_) {
    if (is_floating(result)) result_gradients.push_back(graph.add_input(result->type()));
  }
  std::vector<Value*> arguments;
  size_t next_gradient = 0;
  for (Value* value : captured_) {
    arguments.push_back(!value              ? result_gradients.at(next_gradient++)
                        : value->producer() ? results.at(result_index(value))
                                            : operands.at(value->index()));
  }
  for (Value* gradient : gradients) {
    if (gradient) backward_->add_output(gradient);
  }
  const auto outputs = ir::copy_ops(*backward_, graph, arguments);
  ir::Builder builder(graph);
  size_t next_output = 0, next_argument = 0;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!is_floating(operands_[i])) continue;
    const bool given = i < argument_count_ && gradients.at(next_argument++);
    graph.add_output(given ? outputs.at(next_output++) : zeros(builder, operands_[i]->type()));
  }
  return graph;
}

std::vector<Value*> FunctionTrace::end(const std::vector<Value*>& gradients) {
  size_t argument = 0;
  for (size_t i = 0; i < argument_count_; ++i) {
    if (!is_floating(operands_[i])) continue;
    const Value* gradient = gradients.at(argument++);
    if (gradient && gradient->type() != operands_[i]->type()) {
      throw support::UserError(str("[autograd.Function] backward of '", name_, "' returns ",
                                   gradient->type(), " as the gradient of an argument of type ",
                                   operands_[i]->type(), ". They must be the same."));
    }
  }
  const Graph& gradient = make_gradient_graph(gradients);
  forward_->set_outputs(results_);
  ir::Module& module = forward_->module();
  module.erase_graph(backward_->name());
  builder_ = outer_;
  ir::Op* call = builder_.emit(
      "call", operands_,
      {{"graph", ir::GraphRef{forward_->name()}}, {"gradient", ir::GraphRef{gradient.name()}}});
  std::vector<Value*> outputs;
  for (size_t i = 0; i < output_count_; ++i) outputs.push_back(call->result(i));
  return outputs;
}

}  // namespace poptorch::frontend
