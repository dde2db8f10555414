// Computes gradients that forward itself requests. Their ops are ordinary ops of the graph, so the
// training step differentiates them again.
#include <ATen/core/grad_mode.h>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/effects.hpp"
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

}  // namespace

ir::Value* Tracer::begin_leaf(ir::Value* value) {
  ir::Value* leaf = builder_.value("identity", {value});
  active_.insert(leaf);
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

std::vector<at::Tensor> Tracer::gradients(const std::vector<at::Tensor>& outputs,
                                          const std::vector<at::Tensor>& seeds,
                                          const std::vector<at::Tensor>& inputs) {
  enter_call();
  refuse_in_region();
  for (const ir::Op* op : builder_.graph().ops()) {
    if (!op->def().runs_graphs() || !ir::gradient_of(*op).empty()) continue;
    throw support::UnsupportedError(
        str("[tracer] gradients through poptorch.for_loop or poptorch.cond",
            ir::place_text(op->location), " are not supported inside forward", place(),
            ". Write the loop in Python."));
  }
  std::vector<transforms::GradientSeed> from;
  std::vector<ir::Value*> wanted;
  for (size_t i = 0; i < outputs.size(); ++i) from.push_back({read(outputs[i]), read(seeds[i])});
  for (const at::Tensor& input : inputs) wanted.push_back(read(input));
  ir::Op* last = builder_.graph().last();
  Parameters parameters(builder_.graph().op_list(), request_.training);
  const auto found = transforms::add_gradients(builder_.graph(), from, wanted);
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
