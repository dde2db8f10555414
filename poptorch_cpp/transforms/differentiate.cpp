// The training path of autodiff: final loss, seed, gradients of the optimiser's parameters.
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/builder.hpp"
#include "ir/effects.hpp"
#include "ir/execution.hpp"
#include "ir/memory_writes.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/error.hpp"
#include "support/flat_map.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"
#include "transforms/gradients.hpp"
#include "transforms/optimiser_slots.hpp"
#include "transforms/passes.hpp"
#include "transforms/update_rules.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Role;
using ir::Value;
using support::str;
using support::UserError;

// Raises an error if a loss function of torch does not reduce. With poptorch.identity_loss,
// reduction='none' is the user's choice.
void refuse_unreduced(const Op& loss) {
  const std::string& function = loss.attr<std::string>("of");
  const ir::Type& type = loss.result()->type();
  if (function.empty() || type.elements() == 1) return;
  throw UserError(str("[loss] the loss of ", function, ir::place_text(loss.location),
                      " has reduction='none': ", type,
                      ", but one number is trained. Use reduction='mean' or 'sum', or mark what is "
                      "to be minimised: poptorch.identity_loss(loss, reduction='mean')."));
}

// Returns whether a result of the op is an output of the graph.
bool is_returned(const Op& op) {
  for (size_t i = 0; i < op.result_count(); ++i) {
    const auto& uses = op.result(i)->uses();
    if (std::any_of(uses.begin(), uses.end(), [](const ir::Use& use) { return !use.op; })) {
      return true;
    }
  }
  return false;
}

// Returns the loss on which no other loss depends.
Op* find_loss(const Graph& graph) {
  support::FlatSet<const Op*> feeds_loss, live;
  std::vector<Op*> final_losses;
  const std::vector<Op*> ops = graph.op_list();
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    if (live.contains(*it) || !ir::is_removable(**it) || is_returned(**it)) {
      for (const Value* operand : (*it)->operands()) {
        if (operand && operand->producer()) live.insert(operand->producer());
      }
      live.insert(*it);
    }
    const bool is_loss = (*it)->role() == Role::kLoss;
    if (is_loss && !feeds_loss.contains(*it)) final_losses.push_back(*it);
    if (!is_loss && !feeds_loss.contains(*it)) continue;
    for (const Value* operand : (*it)->operands()) {
      if (operand && operand->producer()) feeds_loss.insert(operand->producer());
    }
  }
  if (final_losses.empty()) {
    throw UserError(
        "Couldn't find a loss in graph. A model for training must compute a loss: use one of "
        "torch's loss functions, or poptorch.identity_loss. If forward computes it only in "
        "training mode, call train() of the model first. For inference, use "
        "poptorch.inferenceModel, or pass training=False to plan() or estimate().");
  }
  // If there are several, those whose value is never used do not count.
  if (final_losses.size() > 1) {
    std::erase_if(final_losses, [&](const Op* loss) { return !live.contains(loss); });
  }
  if (final_losses.size() != 1) {
    std::string places;
    for (const Op* loss : final_losses) places = ir::place_text(loss->location) + places;
    throw UserError(
        str("Multiple independent losses found in graph. Graph must have one final loss. Wrap "
            "final graph loss in poptorch.identity_loss.",
            places));
  }
  refuse_unreduced(*final_losses[0]);
  return final_losses[0];
}

// Logs a warning if the model computes with its loss. The result does not get a gradient, whereas
// torch's backward() would start there: a forgotten identity_loss would change training silently.
void warn_of_arithmetic_after(const Op& loss) {
  for (const ir::Use& use : loss.result()->uses()) {
    if (!use.op || !use.op->def().elementwise || use.op->role() == Role::kCast) continue;
    support::log(support::LogLevel::kWarn,
                 str("[loss] gradients start at the loss", ir::place_text(loss.location),
                     ", so the result of '", use.op->name(), "'", ir::place_text(use.op->location),
                     " has none. If that result is to be minimised, mark it as the loss: "
                     "poptorch.identity_loss(value, reduction='none')."));
    return;
  }
}

// Logs a warning if no parameter gets a gradient, where torch's backward() would raise an error.
void warn_of_nothing_trained(const Op& loss, const std::vector<Value*>& gradients) {
  const bool any = std::any_of(gradients.begin(), gradients.end(), [](auto* g) { return g; });
  if (any || gradients.empty()) return;
  support::log(support::LogLevel::kWarn,
               str("[loss] no parameter is trained: no gradient reaches one from the loss",
                   ir::place_text(loss.location),
                   ". Look for detach(), no_grad() and integers between them."));
}

// Returns the result with which a call passes on its operand unchanged, if the call names a
// gradient graph: such a call represents a hook. Otherwise returns nullptr.
Value* passed_on(const ir::Use& use) {
  const bool is_hook = use.op && use.op->role() == Role::kCall && !ir::gradient_of(*use.op).empty();
  if (!is_hook) return nullptr;
  const Graph& body = ir::body_of(*use.op);
  for (size_t i = 0; i < body.outputs().size() && i < use.op->result_count(); ++i) {
    const Value* output = body.outputs()[i];
    if (output->producer() && output->producer()->role() == Role::kIdentity) {
      output = output->producer()->operand(0);
    }
    if (!output->producer() && output->index() == use.index) return use.op->result(i);
  }
  return nullptr;
}

// Returns the value at which gradients start: the loss after the hooks that its gradient passes.
Value* behind_hooks(const Op& loss) {
  Value* value = loss.result();
  while (value->uses().size() == 1) {
    Value* next = passed_on(value->uses()[0]);
    if (!next) break;
    value = next;
  }
  return value;
}

// Returns the seed gradient: the loss scaling, in the shape of the loss.
Value* seed_of(Op& loss, const ir::OptimiserSpec& spec) {
  ir::Builder builder(loss.graph());
  builder.copy_context(loss);
  builder.forward_id = loss.id();
  const ir::Type& type = loss.result()->type();
  Value* seed = variable_loss_scale(builder, spec);
  seed = seed ? builder.value("cast", {seed}, {{"dtype", type.dtype}})
              : builder.scalar(type.dtype, spec.loss_scaling);
  if (type.shape.empty()) return seed;
  return builder.value("broadcast_to", {seed}, {{"shape", ir::Ints(type.shape)}});
}

// Returns the first read of each parameter, in the spec's order.
std::vector<Value*> parameter_reads(const Graph& graph, const ir::OptimiserSpec& spec) {
  std::map<std::string, Value*> reads;
  for (const Op* op : graph.ops()) {
    if (const std::string* slot = ir::slot_of(op)) reads.emplace(*slot, op->result());
  }
  std::vector<Value*> wanted;
  for (const auto& group : spec.groups) {
    for (const auto& name : group.parameters) {
      auto it = reads.find(name);
      if (it != reads.end()) wanted.push_back(it->second);
    }
  }
  return wanted;
}

// Returns the value that replaces the result of a mark.
Value* unmarked(Op& op, const ir::MemoryWrites& writes) {
  Value* value = op.operand(0);
  ir::Builder builder(op.graph(), &op);
  builder.copy_context(op);
  builder.forward_id = op.forward_id;
  const bool is_loss = op.role() == Role::kLoss;
  const std::string reduction = is_loss ? op.attr<std::string>("reduction") : "none";
  if (reduction != "none" && !value->type().shape.empty()) {
    ir::Ints axes(value->type().shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    return builder.value(reduction, {value}, {{"axes", axes}});
  }
  // If the memory is written, now or by the update of a weight that is returned, the mark's result
  // is a copy made here.
  const auto& uses = op.result()->uses();
  const bool is_returned =
      std::any_of(uses.begin(), uses.end(), [](const ir::Use& use) { return !use.op; });
  const bool is_copied = writes.is_written(value) || (is_returned && ir::is_state(value));
  return is_copied ? builder.value("identity", {value}) : value;
}

// Removes marks, which only differentiation reads. Unless `all`, those of losses and of detached
// values stay: inference keeps them.
void drop_marks(Graph& graph, bool all) {
  const ir::MemoryWrites writes(graph);
  for (Op* op : graph.ops()) {
    if (all && op->role() == Role::kCall) op->set_attr("gradient", ir::GraphRef{});
    if (!op->def().mark || (!all && op->role() != Role::kPlain)) continue;
    op->result()->replace_all_uses_with(unmarked(*op, writes));
    graph.erase(op);
  }
}

}  // namespace

void differentiate(ir::Module& module) {
  const ir::Execution& execution = module.execution();
  if (!execution.training) {  // the gradients that forward requested are ops
    for (const auto& graph : module.graphs()) drop_marks(*graph, false);
    return;
  }
  const ir::OptimiserSpec& optimiser = checked_optimiser(execution);
  Graph& main = module.main();
  Op* loss = find_loss(main);
  warn_of_arithmetic_after(*loss);
  const std::vector<Value*> wanted = parameter_reads(main, optimiser);
  const std::vector<Value*> gradients =
      add_gradients(main, {{behind_hooks(*loss), seed_of(*loss, optimiser)}}, wanted);
  warn_of_nothing_trained(*loss, gradients);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!gradients[i]) continue;
    ir::Builder builder(main);
    builder.copy_context(*wanted[i]->producer());
    builder.forward_id = wanted[i]->producer()->id();
    builder.emit("parameter_gradient", {gradients[i]},
                 {{"parameter", *ir::slot_of(wanted[i]->producer())}});
  }
  for (const auto& graph : module.graphs()) drop_marks(*graph, true);
}

}  // namespace poptorch::transforms
