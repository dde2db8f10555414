// Calls that need the same gradients share one copy of the called graph.
#include "transforms/call_gradients.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

#include "ir/memory_writes.hpp"
#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "transforms/activity.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;
using support::str;
using support::UnsupportedError;

// The limit of rounds for unrolling: beyond it, a loop's gradient would dominate the program's
// size.
constexpr int64_t kMostRounds = 1024;

// Returns whether the op runs a graph and does not name a gradient graph.
bool needs_gradient_graph(const Op& op) {
  return op.def().runs_graphs() && ir::gradient_of(op).empty();
}

// Returns the values that a gradient reaches from the seeds.
std::unordered_set<const Value*> reached_from(const Graph& graph,
                                              const std::vector<GradientSeed>& seeds) {
  std::unordered_set<const Value*> reached;
  for (const GradientSeed& seed : seeds) reached.insert(seed.value);
  const std::vector<Op*> ops = graph.op_list();
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const Op& op = **it;
    bool any = false;
    for (size_t i = 0; i < op.result_count(); ++i) any |= reached.count(op.result(i)) != 0;
    if (!any || op.def().stops_gradient()) continue;
    for (const Value* operand : op.operands()) {
      if (operand && is_differentiable(operand->type())) reached.insert(operand);
    }
  }
  return reached;
}

class Preparation {
 public:
  Preparation(Graph& graph, std::vector<GradientSeed>& seeds, std::vector<Value*>& wanted)
      : graph_(graph), seeds_(seeds), wanted_(wanted) {
    for (const Value* value : wanted) {
      if (const std::string* slot = ir::slot_of(value->producer())) slots_.insert(*slot);
    }
  }

  // An op on the path, with the operands and results that carry gradients.
  struct Found {
    Op* op;
    std::vector<size_t> operands, results;
  };

  std::vector<Found> find() {
    const ir::MemoryWrites writes(graph_);
    const Activity activity(graph_, writes, wanted_);
    const auto reached = reached_from(graph_, seeds_);
    std::vector<Found> out;
    for (Op* op : graph_.ops()) {
      if (!needs_gradient_graph(*op)) continue;
      Found found{op, {}, {}};
      for (size_t i = 0; i < op->result_count(); ++i) {
        const Value* result = op->result(i);
        if (reached.count(result) && is_differentiable(result->type())) found.results.push_back(i);
      }
      if (found.results.empty()) continue;
      refuse_slots(*op);
      for (size_t i = 0; i < op->operand_count(); ++i) {
        if (activity.needs_gradient(*op, i)) found.operands.push_back(i);
      }
      if (!found.operands.empty()) out.push_back(found);
    }
    return out;
  }

  // Replaces the loop by one call per round, each on the results of the one before.
  void unroll(Op& loop) {
    const int64_t count = ir::rounds_of(loop);
    if (count > kMostRounds) {
      throw UnsupportedError(str("[autodiff] a gradient passes through a loop of ", count,
                                 " rounds, but at most ", kMostRounds,
                                 " are unrolled. Use fewer rounds, or detach its operands."));
    }
    ir::Builder builder(graph_, &loop);
    builder.copy_context(loop);
    std::vector<Value*> values = loop.operands();
    for (int64_t round = 0; round < count; ++round) {
      const Op* call = builder.emit("call", values, {{"graph", ir::GraphRef{ir::body_name(loop)}}});
      for (size_t i = 0; i < call->result_count(); ++i) values[i] = call->result(i);
    }
    for (size_t i = 0; i < loop.result_count(); ++i) replace(loop.result(i), values[i]);
    graph_.erase(&loop);
  }

  std::pair<const Op*, std::shared_ptr<const GradientGraph>> prepare(const Found& found) {
    Op& op = *found.op;
    const ir::Symbol body = ir::body_name(op);
    auto& known = known_[{body, found.operands, found.results}];
    if (!known) known = differentiated(body, found);
    ir::Builder builder(graph_, &op);
    builder.copy_context(op);
    Op* call =
        builder.emit("call", op.operands(), {{"graph", ir::GraphRef{known->forward->name()}}});
    for (Op* earlier : op.after()) call->add_after(earlier);
    for (size_t i = 0; i < op.result_count(); ++i) {
      call->result(i)->set_name(op.result(i)->name());
      replace(op.result(i), call->result(i));
    }
    graph_.erase(&op);
    return {call, known};
  }

 private:
  std::shared_ptr<const GradientGraph> differentiated(ir::Symbol body, const Found& found) {
    ir::Module& module = graph_.module();
    const Graph& original = *module.find_graph(body);
    std::string name = body.text() + "_forward";
    for (int i = 1; module.find_graph(name); ++i) name = str(body, "_forward_", i);
    Graph& copy = module.add_graph(name);
    std::vector<Value*> inputs;
    for (const auto& input : original.inputs()) {
      inputs.push_back(copy.add_input(input->type(), input->name(), input->by_reference()));
    }
    for (Value* output : ir::copy_ops(original, copy, inputs)) copy.add_output(output);
    std::vector<Value*> required;
    for (size_t i : found.operands) required.push_back(inputs[i]);
    return std::make_shared<GradientGraph>(autodiff(copy, found.results, required));
  }

  void replace(Value* old, Value* by) {
    old->replace_all_uses_with(by);
    for (GradientSeed& seed : seeds_) {
      if (seed.value == old) seed.value = by;
    }
    std::replace(wanted_.begin(), wanted_.end(), old, by);
  }

  // Raises an error if a called graph reads a wanted slot: its gradient would be lost. Searches
  // each graph once.
  void refuse_slots(const Op& op) {
    for (const auto& [name, runs] : ir::named_graphs(op)) {
      const Graph* callee = graph_.module().find_graph(name);
      if (!callee || !searched_.insert(callee).second) continue;
      for (const Op* inner : callee->ops()) {
        const std::string* slot = ir::slot_of(inner);
        if (slot && slots_.count(*slot)) {
          throw UnsupportedError(str("[autodiff] graph @", callee->name(), " reads parameter '",
                                     *slot, "' directly. Pass it as an operand of the call."));
        }
        refuse_slots(*inner);
      }
    }
  }

  Graph& graph_;
  std::vector<GradientSeed>& seeds_;
  std::vector<Value*>& wanted_;
  std::set<std::string> slots_;
  std::unordered_set<const Graph*> searched_;  // look-up only
  std::map<std::tuple<ir::Symbol, std::vector<size_t>, std::vector<size_t>>,
           std::shared_ptr<const GradientGraph>>
      known_;
};

bool has_graph_ops(const Graph& graph) {
  for (const Op* op : graph.ops()) {
    if (needs_gradient_graph(*op)) return true;
  }
  return false;
}

size_t index_of(const std::vector<Value*>& values, const Value* value) {
  return static_cast<size_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

}  // namespace

CallGradients::CallGradients(Graph& graph, std::vector<GradientSeed>& seeds,
                             std::vector<Value*>& wanted) {
  if (!has_graph_ops(graph)) return;
  Preparation preparation(graph, seeds, wanted);
  for (const auto& found : preparation.find()) {
    if (ir::is_choice(*found.op)) {
      throw UnsupportedError(
          str("[autodiff] the branches of an `if` are not differentiated",
              ir::place_text(found.op->location),
              ", but a gradient passes through it. Compute both branches and select."));
    }
    if (ir::is_loop(*found.op)) preparation.unroll(*found.op);
  }
  for (const auto& found : preparation.find()) {
    auto [call, gradient_graph] = preparation.prepare(found);
    prepared_[call] = std::move(gradient_graph);
  }
}

std::vector<Value*> CallGradients::gradients_of(const Op& op, const ir::GradBuilder& rule,
                                                ir::Builder& builder) const {
  const GradientGraph& info = *prepared_.at(&op);
  const std::vector<Value*>& outputs = info.forward->outputs();
  std::vector<Value*> operands;
  for (size_t index : info.provided) operands.push_back(rule.dy(index));
  for (const GradientConnection& input : info.inputs) {
    if (input.kind == GradientConnection::Kind::kForwardGradient) continue;
    if (!input.forward->producer()) {
      operands.push_back(op.operand(input.forward->index()));
    } else {
      operands.push_back(op.result(index_of(outputs, input.forward)));
    }
  }
  const Op* call = builder.emit("call", operands, {{"graph", ir::GraphRef{info.gradient->name()}}});
  std::vector<Value*> gradients(op.operand_count(), nullptr);
  for (size_t i = 0; i < info.outputs.size(); ++i) {
    gradients[info.outputs[i].forward->index()] = call->result(i);
  }
  return gradients;
}

}  // namespace poptorch::transforms
