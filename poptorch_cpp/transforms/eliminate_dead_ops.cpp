// Removes dead ops in one backward walk per graph, which removes a whole chain of dead ops.
#include <unordered_set>

#include "ir/effects.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

void sweep(ir::Graph& graph) {
  std::unordered_set<const ir::Op*> awaited;  // named by an after() of a live op
  for (ir::Op* op = graph.last(); op;) {
    ir::Op* previous = op->previous();
    if (op->unused() && !awaited.count(op) && ir::is_removable(*op)) {
      graph.erase(op);
    } else {
      awaited.insert(op->after().begin(), op->after().end());
    }
    op = previous;
  }
}

}  // namespace

void eliminate_dead_ops(ir::Module& module) {
  for (const auto& graph : module.graphs()) sweep(*graph);
}

}  // namespace poptorch::transforms
