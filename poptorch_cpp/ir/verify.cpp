// Implements verify.hpp: one check a rule, each naming the op it found.
#include "ir/verify.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/builder.hpp"
#include "ir/text.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::InternalError;
using support::str;

[[noreturn]] void fail(const Graph& graph, const std::string& text) {
  throw InternalError(str("[verify] graph @", graph.name(), ": ", text));
}

[[noreturn]] void fail(const Op& op, const std::string& text) {
  fail(op.graph(), str(text, " in `", print(op), "`"));
}

// Which graph each op seen so far belongs to, by id: a table is several times faster than a set.
class SeenOps {
 public:
  void enter(const Graph& graph) { graph_ = &graph; }
  // False when an op with this id was seen before.
  bool add(const Op& op) {
    if (op.id() >= graph_of_.size()) graph_of_.resize(std::max(op.id() + 1, 2 * op.id()));
    return !std::exchange(graph_of_[op.id()], graph_);
  }
  // Of the graph entered last, and before the point reached.
  bool contains(const Op& op) const {
    return op.id() < graph_of_.size() && graph_of_[op.id()] == graph_;
  }
  bool defines(const Value& value) const {
    if (const Op* producer = value.producer()) return contains(*producer);
    const auto& inputs = graph_->inputs();
    return value.index() < inputs.size() && inputs[value.index()].get() == &value;
  }

 private:
  const Graph* graph_ = nullptr;
  std::vector<const Graph*> graph_of_;
};

void check_operands(const Op& op, const SeenOps& seen) {
  for (uint32_t i = 0; i < op.operand_count(); ++i) {
    const Value* operand = op.operand(i);
    if (operand && !seen.defines(*operand)) {
      fail(op, str("operand ", i, " is not defined before its use"));
    }
  }
}

// Uses mirror operands: as many uses as operands, each pointing back, none twice.
void check_uses(const Graph& graph, const Value* value, size_t& uses) {
  for (const Use& use : value->uses()) {
    const Value* named = nullptr;
    if (use.op) {
      named = use.op->operand(use.index);
    } else if (use.index < graph.outputs().size()) {
      named = graph.outputs()[use.index];
    }
    if (named != value) fail(graph, str("a use of %", value->name(), " does not point back"));
    ++uses;
  }
}

void check_types(const Op& op) {
  std::vector<Type> stated;
  for (size_t i = 0; i < op.result_count(); ++i) stated.push_back(op.result(i)->type());
  std::vector<Type> inferred;
  try {
    inferred = infer_types(op.def(), op.operands(), op.attrs(), &op.graph().module(), stated);
  } catch (const support::UserError& error) {
    fail(op, error.what());
  }
  if (inferred != stated) fail(op, "the result types are not those that the op gives");
}

// An op that writes may write state, or a value of its own graph that nothing reads later.
void check_writes(const Op& op) {
  for (int written : op.def().writes) {
    const Value* value = op.operand(static_cast<size_t>(written));
    if (!value) continue;
    if (!value->producer() && !value->by_reference()) {
      fail(op, str("operand ", written, " is written but is a by-value input"));
    }
    if (value->producer() && value->producer()->is("constant")) {
      fail(op, str("operand ", written, " is written but is a constant"));
    }
  }
}

void check_names(const Op& op, std::vector<const Graph*>& callees) {
  const Module& module = op.graph().module();
  for (const auto& [key, value] : op.attrs()) {
    if (const auto* reference = std::get_if<GraphRef>(&value)) {
      const Graph* callee = module.find_graph(reference->name);
      if (!callee) fail(op, str("there is no graph @", reference->name));
      callees.push_back(callee);
    }
  }
  if (op.is("variable")) {
    const StateSlot* slot = module.find_state(op.attr<std::string>("name"));
    if (!slot) fail(op, "the state slot is not declared");
    if (slot->type != op.result()->type()) fail(op, str("the state slot is ", slot->type));
  }
}

// Returns the graphs that it calls.
std::vector<const Graph*> verify_graph(const Graph& graph, SeenOps& seen) {
  std::vector<const Graph*> callees;
  size_t uses = 0, operands = 0;
  seen.enter(graph);
  for (const auto& input : graph.inputs()) check_uses(graph, input.get(), uses);
  for (const Op* op : graph.ops()) {
    for (const Op* earlier : op->after()) {
      if (!seen.contains(*earlier)) fail(*op, "an after() names an op that does not come before");
    }
    check_operands(*op, seen);
    check_types(*op);
    check_writes(*op);
    check_names(*op, callees);
    if (!seen.add(*op)) fail(*op, "the op's id is not unique");
    for (const Value* operand : op->operands()) operands += operand != nullptr;
    for (size_t i = 0; i < op->result_count(); ++i) check_uses(graph, op->result(i), uses);
  }
  for (const Value* output : graph.outputs()) {
    if (!seen.defines(*output)) fail(graph, "an output is not defined in the graph");
  }
  if (uses != operands + graph.outputs().size()) fail(graph, "a use is recorded twice or missing");
  return callees;
}

using Callees = std::unordered_map<const Graph*, std::vector<const Graph*>>;  // look-up only

// Calls must not be recursive: graphs are inlined and differentiated by walking them.
void check_no_recursion(const Graph& graph, const Callees& callees,
                        std::vector<const Graph*>& stack, std::unordered_set<const Graph*>& done) {
  if (done.count(&graph)) return;
  for (const Graph* outer : stack) {
    if (outer == &graph) fail(graph, "the graph calls itself");
  }
  stack.push_back(&graph);
  for (const Graph* callee : callees.at(&graph)) {
    check_no_recursion(*callee, callees, stack, done);
  }
  stack.pop_back();
  done.insert(&graph);
}

}  // namespace

void verify(const Module& module) {
  SeenOps seen;
  Callees callees;
  for (const auto& graph : module.graphs()) callees[graph.get()] = verify_graph(*graph, seen);
  std::vector<const Graph*> stack;
  std::unordered_set<const Graph*> done;
  for (const auto& graph : module.graphs()) check_no_recursion(*graph, callees, stack, done);
}

}  // namespace poptorch::ir
