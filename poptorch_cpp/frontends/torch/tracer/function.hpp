// An autograd.Function being recorded: its forward as a graph, its backward as the gradient graph
// that the `call` op names. What backward saves of forward becomes a result of the forward graph.
#pragma once

#include <c10/core/ScalarType.h>

#include <map>
#include <string>
#include <vector>

#include "ir/builder.hpp"

namespace poptorch::frontend {

class FunctionTrace {
 public:
  // Turns `builder` to the forward graph, whose first inputs stand for `operands`.
  FunctionTrace(ir::Builder& builder, const std::string& name,
                const std::vector<ir::Value*>& operands);
  // Turns the builder back when the recording did not end.
  ~FunctionTrace();

  // What stands for `value` in the graph that is being built.
  ir::Value* bring(ir::Value* value);
  // Turns the builder to the backward graph. Gives the gradients of the outputs, null for those
  // that are not floating.
  std::vector<ir::Value*> begin_backward(const std::vector<ir::Value*>& outputs);
  // Turns the builder back and emits the call. `gradients`: of the operands that are floating.
  std::vector<ir::Value*> end(const std::vector<ir::Value*>& gradients);

  std::vector<c10::ScalarType> output_dtypes;

 private:
  ir::Value* forward_input(ir::Value* outer);
  size_t result_index(ir::Value* value);
  ir::Graph& make_gradient_graph(const std::vector<ir::Value*>& gradients);

  ir::Builder& builder_;
  ir::Builder outer_;
  std::string name_;
  size_t argument_count_;
  ir::Graph* forward_;
  ir::Graph* backward_ = nullptr;     // inputs in the order of need; not the one that is called
  std::vector<ir::Value*> operands_;  // of the call: arguments, then what was captured
  std::map<uint64_t, ir::Value*> forward_inputs_;  // by key of the outer value
  std::vector<ir::Value*> results_;                // of the forward graph: outputs, then saved ones
  // Inputs of backward_: what each stands for, a value of the outer or forward graph; null: a
  // gradient.
  std::vector<ir::Value*> captured_;
  std::map<uint64_t, ir::Value*> backward_inputs_;
  size_t output_count_ = 0;
};

}  // namespace poptorch::frontend
