// Computes gradients that forward itself requests. Their ops are ordinary ops of the graph, so the
// training step differentiates them again.
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/effects.hpp"
#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "transforms/gradients.hpp"

namespace poptorch::frontend {

using support::str;

namespace {

// Keeps each parameter on the IPU of the layers that use it. Ops on another IPU that use the
// parameter read a copy of its value from there.
class Parameters {
 public:
  Parameters(const std::vector<ir::Op*>& forward, bool training)
      : training_(training), forward_(forward.begin(), forward.end()) {}

  void read_there(ir::Op* op) {
    for (size_t i = 0; i < op->operand_count(); ++i) {
      ir::Value* value = op->operand(i);
      if (!value || !ir::slot_of(ir::memory_root(value)->producer())) continue;
      const ir::Op* there = ir::slot_of(value->producer()) ? first_user(*value) : value->producer();
      if (!there || there->placement.ipu < 0 || there->placement.ipu == op->placement.ipu) continue;
      op->set_operand(i, value_from(value, *there, op->placement.ipu));
    }
  }

 private:
  const ir::Op* first_user(const ir::Value& value) const {
    const ir::Op* first = nullptr;
    for (const ir::Use& use : value.uses()) {
      if (!use.op || !forward_.contains(use.op) || use.op->def().stops_gradient()) continue;
      if (!first || use.op->is_before(first)) first = use.op;
    }
    return first;
  }

  ir::Value* value_from(ir::Value* value, const ir::Op& there, int64_t ipu) {
    ir::Value*& made = made_[{value, ipu}];
    if (made) return made;
    ir::Builder builder(value->graph(), there.next());
    builder.copy_context(there);
    // A checkpoint is a value outside the parameter's memory, and gradients pass it like any value.
    return made = training_ ? builder.value("identity", {value}, {{"checkpoint", true}})
                            : builder.value("ipu_copy", {value}, {{"to", ipu}});
  }

  bool training_;
  std::set<const ir::Op*> forward_;                                  // look-up only
  std::map<std::pair<const ir::Value*, int64_t>, ir::Value*> made_;  // look-up only
};

// Returns the ops that a gradient of the values may pass.
std::vector<const ir::Op*> ops_behind(std::vector<ir::Value*> waiting) {
  std::vector<const ir::Op*> ops;
  std::set<const ir::Op*> seen;  // look-up only
  while (!waiting.empty()) {
    const ir::Value* value = waiting.back();
    waiting.pop_back();
    const ir::Op* maker = value ? value->producer() : nullptr;
    if (!maker || maker->def().stops_gradient() || !seen.insert(maker).second) continue;
    ops.push_back(maker);
    for (ir::Value* operand : maker->operands()) waiting.push_back(operand);
  }
  return ops;
}

// Replaces the calls of functions' backward graphs from `op` on by the ops of these graphs, so that
// another gradient can pass through them. `found` may hold results of the calls.
void inline_backward(ir::Op* op, std::vector<ir::Value*>& found) {
  while (op) {
    ir::Op* const next = op->next();
    if (op->role() == ir::Role::kCall && ir::gradient_of(*op).empty()) {
      ir::Graph& graph = op->graph();
      const ir::Graph& body = *graph.module().find_graph(ir::body_name(*op));
      const auto values = ir::copy_ops(body, graph, op->operands(), op);
      for (size_t i = 0; i < values.size(); ++i) {
        std::replace(found.begin(), found.end(), op->result(i), values[i]);
        op->result(i)->replace_all_uses_with(values[i]);
      }
      graph.erase(op);
    }
    op = next;
  }
}

}  // namespace

ir::Value* Tracer::begin_leaf(ir::Value* value) {
  ir::Value* leaf = builder_.value("identity", {value});
  active_.insert(leaf);
  of_leaves_.insert(leaf);
  has_leaves_ = true;
  return leaf;
}

at::Tensor Tracer::make_leaf(const at::Tensor& tensor) {
  enter_call();
  refuse_in_region();
  const at::AutoGradMode enabled(true);
  return make_tensor(begin_leaf(read(tensor)), tensor.scalar_type());
}

void Tracer::refuse_in_region() const {
  if (regions_.empty()) return;
  throw support::UnsupportedError(
      str("[tracer] gradients inside a body of poptorch.for_loop or poptorch.cond, a hook or an "
          "autograd.Function are not supported",
          place(), ". Ask for them outside of it."));
}

bool Tracer::follows_leaf(const at::Tensor& tensor) {
  return tensor.requires_grad() && of_leaves_.contains(read(tensor));
}

void Tracer::close_to_gradients(const std::string& topic, const std::string& what,
                                const std::vector<at::Tensor>& arguments,
                                const std::vector<at::Tensor>& results) {
  if (!regions_.empty()) return;  // no gradients inside
  Closed closed{topic, what, {}};
  for (const at::Tensor& argument : arguments) closed.arguments.push_back(read(argument));
  for (const at::Tensor& result : results) {
    Root& root = root_of(result);
    const Geometry geometry = Geometry::of(result);
    // Active like any value that requires gradients, but not a leaf.
    ir::Value* value = builder_.value("identity", {root.read(*this, geometry)});
    active_.insert(value);
    root.replace(geometry, value, root.own_history_of(result));
    closed_.emplace(value, closed);
  }
}

// Throws UnsupportedError if an input reaches an output through a function that is closed to
// gradients.
void Tracer::refuse_closed(const std::vector<at::Tensor>& outputs,
                           const std::vector<ir::Value*>& inputs) {
  // A value, and the function through which the search has passed.
  std::vector<std::pair<ir::Value*, const Closed*>> waiting;
  for (const at::Tensor& output : outputs) waiting.push_back({read(output), nullptr});
  std::set<std::pair<ir::Value*, const Closed*>> seen;  // look-up only
  while (!waiting.empty()) {
    const auto [value, passed] = waiting.back();
    waiting.pop_back();
    if (!value || !seen.insert({value, passed}).second) continue;
    if (passed && std::find(inputs.begin(), inputs.end(), value) != inputs.end()) {
      throw support::UnsupportedError(
          str("[", passed->topic, "] a gradient passes through ", passed->what,
              " is not recorded in inference for gradients by weights", place(),
              ". Call requires_grad_() on a tensor that it ",
              "depends on, and differentiate by that; or use poptorch.trainingModel."));
    }
    if (const auto closed = closed_.find(value); closed != closed_.end()) {
      for (ir::Value* argument : closed->second.arguments) {
        waiting.push_back({argument, &closed->second});
      }
    }
    const ir::Op* maker = value->producer();
    if (!maker || maker->role() == ir::Role::kConstant || maker->def().stops_gradient()) continue;
    for (ir::Value* operand : maker->operands()) waiting.push_back({operand, passed});
  }
}

std::vector<at::Tensor> Tracer::gradients(const std::vector<at::Tensor>& outputs,
                                          const std::vector<at::Tensor>& seeds,
                                          const std::vector<at::Tensor>& inputs) {
  enter_call();
  refuse_in_region();
  const auto values_of = [&](const std::vector<at::Tensor>& tensors) {
    std::vector<ir::Value*> values;
    for (const at::Tensor& tensor : tensors) values.push_back(read(tensor));
    return values;
  };
  for (const ir::Op* op : ops_behind(values_of(outputs))) {
    if (!op->def().runs_graphs() || !ir::gradient_of(*op).empty()) continue;
    throw support::UnsupportedError(
        str("[tracer] gradients through poptorch.for_loop or poptorch.cond",
            ir::place_text(op->location), " are not supported inside forward", place(),
            ". Write the loop in Python."));
  }
  std::vector<transforms::GradientSeed> from;
  const std::vector<ir::Value*> wanted = values_of(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) from.push_back({read(outputs[i]), read(seeds[i])});
  if (!closed_.empty()) refuse_closed(outputs, wanted);
  ir::Op* last = builder_.graph().last();
  Parameters parameters(builder_.graph().op_list(), request_.training);
  auto found = transforms::add_gradients(builder_.graph(), from, wanted);
  inline_backward(last ? last->next() : builder_.graph().first(), found);
  // The new ops belong to the code that runs now, not to a backward pass.
  for (ir::Op* op = last ? last->next() : builder_.graph().first(); op; op = op->next()) {
    op->forward_id = 0;
    op->placement = builder_.placement;
    op->location = builder_.location;
    op->scope = builder_.scope;
    op->labels = builder_.labels;
    if (has_blocks_) parameters.read_there(op);
  }
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < found.size(); ++i) {
    results.push_back(found[i] ? make_tensor(found[i], inputs[i].scalar_type()) : at::Tensor());
  }
  return results;
}

}  // namespace poptorch::frontend
