// Records an autograd.Function: its forward becomes a graph, its backward becomes the gradient
// graph that the `call` op names. Values of forward that backward saves become results of the
// forward graph.
#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/tracer/graph/region.hpp"

namespace poptorch::frontend {

class FunctionTrace {
 public:
  // Opens the forward graph, whose first inputs stand for `operands`.
  FunctionTrace(Regions& regions, ir::Builder& builder, const std::string& name,
                const std::vector<ir::Value*>& operands);

  ir::Value* argument(size_t i) const { return forward_->graph().inputs()[i].get(); }
  // Opens the backward graph. Returns the gradients of the outputs, null for those that are not
  // floating.
  std::vector<ir::Value*> begin_backward(const std::vector<ir::Value*>& outputs);
  // Closes both graphs and emits the call. `gradients` has one entry per floating operand of the
  // constructor.
  std::vector<ir::Value*> end(const std::vector<ir::Value*>& gradients);

  std::vector<c10::ScalarType> output_dtypes;

 private:
  size_t result_index(ir::Value* value);
  ir::Graph& make_gradient_graph(const std::vector<ir::Value*>& gradients);

  Regions& regions_;
  ir::Builder& builder_;
  std::string name_;
  size_t argument_count_;
  std::shared_ptr<Region> forward_;
  // Records backward; it is not the graph that is called. Its inputs come in the order of need. An
  // input without an outer value is a gradient.
  std::shared_ptr<Region> backward_;
  std::vector<ir::Value*> results_;  // of the forward graph: outputs, then saved ones
  size_t output_count_ = 0;
};

}  // namespace poptorch::frontend
