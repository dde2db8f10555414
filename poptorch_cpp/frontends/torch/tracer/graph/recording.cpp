// Records code in graphs beside the surrounding one: functions with their own backward, loops and
// branches.
#include <algorithm>
#include <ranges>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "ir/op_def.hpp"
#include "support/error.hpp"

namespace poptorch::frontend {

std::vector<at::Tensor> Tracer::begin_function(const std::string& name,
                                               const std::vector<at::Tensor>& arguments) {
  std::vector<ir::Value*> operands;
  for (const auto& argument : arguments) operands.push_back(read(argument));
  function_.emplace(regions_, builder_, name, operands);
  std::vector<at::Tensor> inside;
  for (size_t i = 0; i < arguments.size(); ++i) {
    inside.push_back(make_tensor(function_->argument(i), arguments[i].scalar_type()));
    if (arguments[i].requires_grad()) inside[i].unsafeGetTensorImpl()->set_requires_grad(true);
  }
  return inside;
}

std::vector<at::Tensor> Tracer::begin_backward(const std::vector<at::Tensor>& outputs) {
  std::vector<ir::Value*> values;
  for (const auto& output : outputs) values.push_back(read(output));
  function_->output_dtypes.clear();
  for (const auto& output : outputs) function_->output_dtypes.push_back(output.scalar_type());
  std::vector<at::Tensor> gradients;
  for (ir::Value* gradient : function_->begin_backward(values)) {
    const auto dtype = outputs[gradients.size()].scalar_type();
    gradients.push_back(gradient ? make_tensor(gradient, dtype) : at::Tensor());
  }
  return gradients;
}

std::vector<at::Tensor> Tracer::end_function(const std::vector<at::Tensor>& gradients) {
  std::vector<ir::Value*> values;
  for (const auto& gradient : gradients) {
    values.push_back(gradient.defined() ? read(gradient) : nullptr);
  }
  const auto dtypes = function_->output_dtypes;
  const auto results = function_->end(values);
  function_.reset();
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < dtypes.size(); ++i) outputs.push_back(make_tensor(results[i], dtypes[i]));
  return outputs;
}

void Tracer::abandon_function() {
  function_.reset();
  while (!regions_.empty()) regions_.close();
}

namespace {

// Puts `call` in front of the first op that uses one of its first `count` operands.
void bring_forward(ir::Op* call, size_t count) {
  ir::Op* first = call;
  for (const ir::Value* value : call->operands() | std::views::take(count)) {
    for (const ir::Use& use : value->uses()) {
      if (use.op && use.op->is_before(first)) first = use.op;
    }
  }
  if (first == call) return;
  for (ir::Value* operand : call->operands()) {
    ir::Op* maker = operand->producer();
    if (!maker || maker->is_before(first)) continue;
    if (maker->role() != ir::Role::kConstant) {
      throw support::UnsupportedError(
          "[hook] the hook uses a tensor that was made after the hooked tensor was first used. "
          "Register the hook before that use.");
    }
    maker->graph().move_before(maker, first);
  }
  call->graph().move_before(call, first);
}

}  // namespace

at::Tensor Tracer::begin_hook(const at::Tensor& tensor) {
  // The gradient passes hooks in the order of their registration: the new hook is placed first.
  ir::Value* value = read(tensor);
  while (value->producer() && hooks_.contains(value->producer())) {
    value = value->producer()->operand(0);
  }
  function_.emplace(regions_, builder_, "hook", std::vector<ir::Value*>{value});
  ir::Value* gradient = function_->begin_backward({function_->argument(0)}).at(0);
  return make_tensor(gradient, tensor.scalar_type());
}

void Tracer::end_hook(const at::Tensor& tensor, const at::Tensor& gradient) {
  ir::Value* after = function_->end({read(gradient)}).at(0);
  function_.reset();
  note_new_ops();
  bring_forward(after->producer(), 1);
  hooks_.insert(after->producer());
  send_through(tensor, after);
}

void Tracer::use_results(const std::vector<at::Tensor>& tensors,
                         const std::vector<at::Tensor>& results) {
  note_new_ops();
  if (tensors.empty()) return;
  bring_forward(read(results[0])->producer(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) send_through(tensors[i], read(results[i]));
}

// Replaces uses of a call's operand, which `tensor` holds, by `after`, the call's result of the
// same index.
void Tracer::send_through(const at::Tensor& tensor, ir::Value* after) {
  ir::Op* call = after->producer();
  ir::Value* before = call->operand(after->index());
  bool is_first = true;
  const auto uses = before->uses();
  for (const ir::Use& use : uses) {
    if (!use.op || use.op == call || use.op->def().writes_operand(use.index)) continue;
    is_first &= !hooks_.contains(use.op);
    use.op->set_operand(use.index, after);
  }
  if (!is_first) return;
  Root& root = root_of(tensor);
  root.replace(Geometry::of(tensor), after, root.own_history_of(tensor));
}

std::vector<at::Tensor> Tracer::begin_region(const std::vector<at::Tensor>& arguments) {
  std::vector<ir::Value*> operands;
  for (const auto& argument : arguments) operands.push_back(read(argument));
  const auto region = regions_.open("recording", true);
  std::vector<at::Tensor> inside;
  for (size_t i = 0; i < arguments.size(); ++i) {
    ir::Value* input = region->add_argument(operands[i], operands[i]->type());
    inside.push_back(make_tensor(input, arguments[i].scalar_type()));
  }
  return inside;
}

void Tracer::restore_written() {
  for (Region::Written& written : regions_.innermost()->written) {
    written.after = written.root->value();
    written.root->write(*this, written.root->geometry(), written.before, nullptr);
  }
}

std::shared_ptr<Region> Tracer::end_region(const std::vector<at::Tensor>& outputs) {
  const auto region = regions_.innermost();
  for (const auto& output : outputs) region->results.push_back(read(output));
  restore_written();
  regions_.close();
  return region;
}

void Tracer::abandon_region() {
  restore_written();
  regions_.close();
}

std::vector<at::Tensor> Tracer::take_results(ir::Op* op,
                                             const std::vector<Region::Written>& written,
                                             const std::vector<at::Tensor>& outputs) {
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(make_tensor(op->result(i), outputs[i].scalar_type()));
  }
  for (size_t i = 0; i < written.size(); ++i) {
    Root& root = *written[i].root;
    store(root, root.geometry(), op->result(outputs.size() + i), nullptr);
  }
  return results;
}

std::vector<at::Tensor> Tracer::repeat(Region& body, int64_t count,
                                       const std::vector<at::Tensor>& outputs) {
  enter_call();
  return take_results(emit_repeat(builder_, body, count), body.written, outputs);
}

std::vector<at::Tensor> Tracer::branch(const at::Tensor& condition, Region& then_region,
                                       Region& else_region,
                                       const std::vector<at::Tensor>& outputs) {
  enter_call();
  ir::Op* op = emit_if(builder_, read(condition), then_region, else_region);
  return take_results(op, written_by(then_region, else_region), outputs);
}

}  // namespace poptorch::frontend
