// Implements highest_ipu.hpp.
#include "partition/highest_ipu.hpp"

#include <algorithm>
#include <unordered_set>

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
    // What a copy brings is named by its user there.
    if (op->is("ipu_copy") && op->attr<int64_t>("to") > found.number && !is_used(*op->result())) {
      found = {static_cast<int>(op->attr<int64_t>("to")), op};
    }
    if (!op->def().calls) continue;
    for (const auto& [key, value] : op->attrs()) {
      const auto* reference = std::get_if<ir::GraphRef>(&value);
      const ir::Graph* callee = reference ? graph.module().find_graph(reference->name) : nullptr;
      if (callee && key.text() != "gradient") look(*callee, seen, found);
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
