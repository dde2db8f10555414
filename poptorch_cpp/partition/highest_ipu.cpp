#include "partition/highest_ipu.hpp"

#include <algorithm>
#include <unordered_set>

#include "ir/roles.hpp"

namespace poptorch::partition {
namespace {

bool is_used(const ir::Value& value) {
  return std::any_of(value.uses().begin(), value.uses().end(),
                     [](const ir::Use& use) { return use.op != nullptr; });
}

void look(const ir::Graph& graph, std::unordered_set<const ir::Graph*>& seen, HighestIpu& found) {
  if (!seen.insert(&graph).second) return;
  for (const ir::Op* op : graph.ops()) {
    if (op->placement.ipu > found.number) found = {op->placement.ipu, op};
    // The user of a copy names the copy's target already.
    const auto target = ir::target_ipu(*op);
    if (target && *target > found.number && !is_used(*op->result())) found = {*target, op};
    for (const auto& [name, runs] : ir::named_graphs(*op)) {
      const ir::Graph* callee = runs ? graph.module().find_graph(name) : nullptr;
      if (callee) look(*callee, seen, found);
    }
  }
}

}  // namespace

HighestIpu highest_ipu(const ir::Module& module) {
  HighestIpu found;
  std::unordered_set<const ir::Graph*> seen;  // look-up only
  look(module.main(), seen, found);
  return found;
}

}  // namespace poptorch::partition
