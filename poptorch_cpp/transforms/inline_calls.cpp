// Inlines callees first, so that a body is copied once per call and never twice.
#include <unordered_map>
#include <unordered_set>

#include "ir/execution.hpp"
#include "ir/roles.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

class Inliner {
 public:
  Inliner(ir::Module& module, bool keep_gradients)
      : module_(module), keep_gradients_(keep_gradients) {}

  void visit(Graph& graph) {
    if (!visited_.insert(&graph).second) return;
    for (Op* op : graph.ops()) {
      for (const auto& named : ir::named_graphs(*op)) visit(*module_.find_graph(named.name));
      const bool keeps = keep_gradients_ && !ir::gradient_of(*op).empty();
      if (op->role() == ir::Role::kCall && !keeps) inline_call(graph, *op);
    }
  }

  // Deletes graphs that are not reachable from @main.
  void sweep() {
    if (!module_.find_graph("main")) return;
    visited_.clear();
    reach(module_.main());
    std::vector<ir::Symbol> unreached;
    for (const auto& graph : module_.graphs()) {
      if (!visited_.count(graph.get())) unreached.push_back(graph->name());
    }
    for (ir::Symbol name : unreached) module_.erase_graph(name);
  }

 private:
  void inline_call(Graph& graph, Op& call) {
    Op* before = call.previous();
    const std::vector<Value*> results =
        ir::copy_ops(ir::body_of(call), graph, call.operands(), &call);
    for (Op* op = before ? before->next() : graph.first(); op != &call; op = op->next()) {
      op->take_unsaid(call);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      call.result(i)->replace_all_uses_with(results[i]);
    }
    graph.erase(&call);
  }

  void reach(const Graph& graph) {
    if (!visited_.insert(&graph).second) return;
    for (const Op* op : graph.ops()) {
      for (const auto& named : ir::named_graphs(*op)) {
        if (const Graph* callee = module_.find_graph(named.name)) reach(*callee);
      }
    }
  }

  ir::Module& module_;
  bool keep_gradients_;
  std::unordered_set<const Graph*> visited_;
};

}  // namespace

void inline_calls(ir::Module& module) {
  Inliner inliner(module, module.execution().training);
  // If there is a @main, only graphs that it reaches are kept, so that others need no visit.
  if (ir::Graph* main = module.find_graph("main")) {
    inliner.visit(*main);
  } else {
    for (const auto& graph : module.graphs()) inliner.visit(*graph);
  }
  inliner.sweep();
}

}  // namespace poptorch::transforms
