#include "frontends/torch/tracer/graph/function.hpp"

#include <algorithm>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using ir::Graph;
using ir::Value;
using support::str;

bool is_floating(const Value* value) { return ir::is_float(value->type().dtype); }

Value* zeros(ir::Builder& builder, const ir::Type& type) {
  Value* zero = builder.scalar(type.dtype, 0.0);
  if (type.shape.empty()) return zero;
  return builder.value("broadcast_to", {zero}, {{"shape", ir::Ints(type.shape)}});
}

}  // namespace

FunctionTrace::FunctionTrace(Regions& regions, ir::Builder& builder, const std::string& name,
                             const std::vector<Value*>& operands)
    : regions_(regions),
      builder_(builder),
      name_(name),
      argument_count_(operands.size()),
      forward_(regions.open(name, false)) {
  for (Value* operand : operands) forward_->add_argument(operand, operand->type());
}

std::vector<Value*> FunctionTrace::begin_backward(const std::vector<Value*>& outputs) {
  for (Value* output : outputs) {
    // Each result is a separate value, even where forward returns its argument.
    results_.push_back(output->producer() ? output : builder_.value("identity", {output}));
  }
  output_count_ = outputs.size();
  backward_ = regions_.open(name_ + "_backward_trace", true);
  std::vector<Value*> gradients;
  for (Value* result : results_) {
    if (!is_floating(result)) {
      gradients.push_back(nullptr);
      continue;
    }
    gradients.push_back(backward_->add_argument(nullptr, result->type()));
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
  for (Value* value : backward_->operands()) {
    if (value && value->producer()) result_index(value);
  }
  Graph& graph = fresh_graph(forward_->graph().module(), name_ + "_gradient");
  std::vector<Value*> operands, results, result_gradients;
  for (Value* operand : forward_->operands()) operands.push_back(graph.add_input(operand->type()));
  for (Value* result : results_) results.push_back(graph.add_input(result->type()));
  for (Value* result : results_) {
    if (is_floating(result)) result_gradients.push_back(graph.add_input(result->type()));
  }
  std::vector<Value*> arguments;
  size_t next_gradient = 0;
  for (Value* value : backward_->operands()) {
    arguments.push_back(!value              ? result_gradients.at(next_gradient++)
                        : value->producer() ? results.at(result_index(value))
                                            : operands.at(value->index()));
  }
  for (Value* gradient : gradients) {
    if (gradient) backward_->results.push_back(gradient);
  }
  backward_->settle();
  const auto outputs = ir::copy_ops(backward_->graph(), graph, arguments);
  ir::Builder builder(graph);
  size_t next_output = 0, next_argument = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!is_floating(operands[i])) continue;
    const bool given = i < argument_count_ && gradients.at(next_argument++);
    graph.add_output(given ? outputs.at(next_output++) : zeros(builder, operands[i]->type()));
  }
  return graph;
}

std::vector<Value*> FunctionTrace::end(const std::vector<Value*>& gradients) {
  const auto& operands = forward_->operands();
  size_t argument = 0;
  for (size_t i = 0; i < argument_count_; ++i) {
    if (!is_floating(operands[i])) continue;
    const Value* gradient = gradients.at(argument++);
    if (gradient && gradient->type() != operands[i]->type()) {
      throw support::UserError(str("[autograd.Function] backward of '", name_, "' returns ",
                                   gradient->type(), " as the gradient of an argument of type ",
                                   operands[i]->type(), ". They must be the same."));
    }
  }
  const Graph& gradient = make_gradient_graph(gradients);
  forward_->results = results_;
  forward_->settle();
  regions_.close();
  regions_.close();
  ir::Op* call = builder_.emit("call", operands,
                               {{"graph", ir::GraphRef{forward_->graph().name()}},
                                {"gradient", ir::GraphRef{gradient.name()}}});
  std::vector<Value*> outputs;
  for (size_t i = 0; i < output_count_; ++i) outputs.push_back(call->result(i));
  return outputs;
}

}  // namespace poptorch::frontend
