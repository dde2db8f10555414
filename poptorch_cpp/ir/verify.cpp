// Each function checks one rule and names the op that violates it.
#include "ir/verify.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/builder.hpp"
#include "ir/execution.hpp"
#include "ir/memory_writes.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
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

// Records the graph of each op seen so far, by id: a table is several times faster than a set.
class SeenOps {
 public:
  void enter(const Graph& graph) { graph_ = &graph; }
  // Returns false if an op with this id was seen before.
  bool add(const Op& op) {
    if (op.id() >= graph_of_.size()) graph_of_.resize(std::max(op.id() + 1, 2 * graph_of_.size()));
    return !std::exchange(graph_of_[op.id()], graph_);
  }
  // Returns whether an op belongs to the graph entered last and was already visited.
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

// Checks that uses mirror operands: as many uses as operands, each pointing back, none twice.
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

void check_all_uses(const Graph& graph) {
  size_t uses = 0, operands = graph.outputs().size();
  for (const auto& input : graph.inputs()) check_uses(graph, input.get(), uses);
  for (const Op* op : graph.ops()) {
    for (const Value* operand : op->operands()) operands += operand != nullptr;
    for (size_t i = 0; i < op->result_count(); ++i) check_uses(graph, op->result(i), uses);
  }
  if (uses != operands) fail(graph, "a use is recorded twice or missing");
}

// Keeps a sum that is zero if uses mirror operands. Looking at the users of each value instead
// would take most of the verifier's time.
class UseSum {
 public:
  void add_uses_of(const Value& value) {
    for (const Use& use : value.uses()) sum_ += term(&value, use.op, use.index);
  }
  void take(const Value* value, const Op* op, uint32_t index) { sum_ -= term(value, op, index); }
  bool is_zero() const { return sum_ == 0; }

 private:
  static uint64_t term(const Value* value, const Op* op, uint32_t index) {
    uint64_t x = reinterpret_cast<uintptr_t>(value) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29) ^ reinterpret_cast<uintptr_t>(op)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 32) ^ index) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  uint64_t sum_ = 0;
};

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

// Checks that an op writes state, or a value of the same graph that nothing reads later.
void check_written(const Op& op, size_t operand) {
  const Value* value = op.operand(operand);
  if (!value) return;
  if (!value->producer() && !value->by_reference()) {
    fail(op, str("operand ", operand, " is written but is a by-value input"));
  }
  if (literal_of(value)) {
    fail(op, str("operand ", operand, " is written but is a constant"));
  }
}

void check_op(const Op& op) {
  // The signature of a graph may change without its callers.
  if (!op.is_checked() || op.def().runs_graphs()) check_types(op);
  op.mark_checked();
  for (int written : op.def().writes) check_written(op, static_cast<size_t>(written));
  verify_placement(op);
}

void check_declarations(const Module& module) {
  for (const auto& slot : module.states()) {
    // The other properties were checked by the declaration.
    const bool plain = slot->group_size == 0 && slot->group_stride == 1 && !slot->initial;
    const std::string defect = plain ? "" : defect_of(*slot);
    if (!defect.empty()) throw InternalError(str("[verify] state '", slot->name, "': ", defect));
  }
}

// Returns true if an op of the graph names a graph.
bool verify_graph(const Graph& graph, SeenOps& seen) {
  UseSum uses;
  bool calls = false;
  seen.enter(graph);
  for (const auto& input : graph.inputs()) uses.add_uses_of(*input);
  for (const Op* op : graph.ops()) {
    for (const Op* earlier : op->after()) {
      if (!seen.contains(*earlier)) fail(*op, "an after() names an op that does not come before");
    }
    check_operands(*op, seen);
    check_op(*op);
    calls |= op->def().runs_graphs();
    if (!seen.add(*op)) fail(*op, "the op's id is not unique");
    for (uint32_t i = 0; i < op->operand_count(); ++i) {
      if (op->operand(i)) uses.take(op->operand(i), op, i);
    }
    for (size_t i = 0; i < op->result_count(); ++i) uses.add_uses_of(*op->result(i));
  }
  for (uint32_t i = 0; i < graph.outputs().size(); ++i) {
    const Value* output = graph.outputs()[i];
    if (!seen.defines(*output)) fail(graph, "an output is not defined in the graph");
    uses.take(output, nullptr, i);
  }
  if (!uses.is_zero()) check_all_uses(graph);
  return calls;
}

std::string count_text(double count) {
  return count < 0x1p53 ? std::to_string(static_cast<int64_t>(count)) : str("about ", count);
}

// Computes the size of graphs with all graphs that they hold, and checks their writes to callers'
// values.
class Expansion {
 public:
  explicit Expansion(const Module& module) : module_(module), callees_(module) {
    for (const auto& graph : module.graphs()) sizes_[graph.get()];
  }

  void check() {
    for (const auto& graph : module_.graphs()) size_of(*graph, 0);
  }

 private:
  // Doubles saturate.
  struct Size {
    double ops = 0, rounds = 1;
    int nesting = 0;
    enum { kNew, kOpen, kKnown } state = kNew;
  };

  const Size& size_of(const Graph& graph, int outer) {
    Size& size = sizes_[&graph];
    if (size.state == Size::kKnown) return size;
    // Graphs are inlined and differentiated by walking them, so they must not be recursive.
    if (size.state == Size::kOpen) fail(graph, "the graph calls itself");
    if (outer >= kMaxNesting) refuse(graph, str("is nested in more than ", kMaxNesting, " others"));
    size.state = Size::kOpen;
    for (const Op* op : graph.ops()) {
      size.ops += 1;
      if (op->def().runs_graphs()) add_callees(*op, size, outer);
    }
    if (size.ops > kMaxExpandedOps) {
      refuse(graph, str("comes to ", count_text(size.ops),
                        " ops with the graphs that it calls, each counted as "
                        "often as it is called, but ",
                        kMaxExpandedOps, " are the limit"));
    }
    if (size.rounds > static_cast<double>(kMaxRounds)) {
      refuse(graph,
             str("would run a body ", count_text(size.rounds),
                 " times with the rounds of its repeats, but ", kMaxRounds, " are the limit"));
    }
    if (size.nesting >= kMaxNesting) {
      refuse(graph,
             str("nests graphs ", size.nesting, " deep, but ", kMaxNesting, " is the limit"));
    }
    size.state = Size::kKnown;
    return size;
  }

  void add_callees(const Op& op, Size& size, int outer) {
    const auto rounds = static_cast<double>(rounds_of(op));
    for (const auto& [name, runs] : named_graphs(op)) {
      const Graph* callee = module_.find_graph(name);
      if (!callee) fail(op, str("there is no graph @", name));
      const Size inner = size_of(*callee, outer + 1);
      size.ops += inner.ops;
      size.rounds = std::max(size.rounds, rounds * inner.rounds);
      size.nesting = std::max(size.nesting, inner.nesting + 1);
      if (runs) check_references(op, *callee);
    }
  }

  // Checks that the operands that the callee writes may be written.
  void check_references(const Op& op, const Graph& callee) {
    const std::vector<bool>& written = callees_.of(callee).inputs;
    for (size_t i = 0; i < written.size(); ++i) {
      if (written[i]) check_written(op, first_argument(op) + i);
    }
  }

  [[noreturn]] static void refuse(const Graph& graph, const std::string& text) {
    throw support::UserError(
        str("[module] graph @", graph.name(), " ", text, ". Call fewer graphs, or smaller ones."));
  }

  const Module& module_;
  std::unordered_map<const Graph*, Size> sizes_;  // look-up only
  CalleeAnalysis callees_;
};

}  // namespace

void verify_op(const Op& op) { check_op(op); }

void verify_placement(const Op& op) {
  const struct {
    const char* what;
    int number, limit;
  } numbers[] = {{"IPU", op.placement.ipu, kMaxIpus},
                 {"stage", op.placement.stage, kMaxStages},
                 {"phase", op.placement.phase, kMaxStages}};
  for (const auto& [what, number, limit] : numbers) {
    if (number >= -1 && number < limit) continue;
    throw support::UserError(str("[placement] op '", op.name(), "' is in ", what, " ", number,
                                 ". Choose one from 0 to ", limit - 1, ": `", print(op), "`."));
  }
}

void verify(const Module& module) {
  const Graph* main = module.find_graph("main");
  check(module.execution(), main ? main->outputs().size() : 0);
  if (module.is_verified()) return;
  check_declarations(module);
  SeenOps seen;
  bool calls = false;
  for (const auto& graph : module.graphs()) calls |= verify_graph(*graph, seen);
  if (calls) Expansion(module).check();
  module.mark_verified();
}

}  // namespace poptorch::ir
