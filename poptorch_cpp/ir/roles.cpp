#include "ir/roles.hpp"

#include <algorithm>

#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {

const std::string* slot_of(const Op* op) {
  return op && op->role() == Role::kState ? &op->attr<std::string>("name") : nullptr;
}

const Literal* literal_of(const Value* value) {
  const Op* op = value->producer();
  return op && op->role() == Role::kConstant ? &op->attr<Literal>("value") : nullptr;
}

std::optional<int> target_ipu(const Op& op) {
  if (op.role() != Role::kCopy) return std::nullopt;
  return static_cast<int>(op.attr<int64_t>("to"));
}

std::vector<NamedGraph> named_graphs(const Op& op) {
  std::vector<NamedGraph> graphs;
  if (!op.def().runs_graphs()) return graphs;
  const auto& bodies = op.def().bodies;
  for (const auto& [key, value] : op.attrs()) {
    const auto* reference = std::get_if<GraphRef>(&value);
    if (!reference || reference->name.empty()) continue;
    const bool runs = std::find(bodies.begin(), bodies.end(), key) != bodies.end();
    graphs.push_back({reference->name, runs});
  }
  return graphs;
}

Symbol body_name(const Op& op, size_t i) { return op.attr<GraphRef>(op.def().bodies.at(i)).name; }

const Graph& body_of(const Op& op, size_t i) {
  const Symbol name = body_name(op, i);
  if (const Graph* graph = op.graph().module().find_graph(name)) return *graph;
  throw support::InternalError(support::str("[", op.name(), "] there is no graph @", name));
}

size_t first_argument(const Op& op) { return op.def().operand_defs.size() - 1; }

bool is_loop(const Op& op) { return op.role() == Role::kRegion && op.def().bodies.size() == 1; }

bool is_choice(const Op& op) { return op.role() == Role::kRegion && op.def().bodies.size() > 1; }

int64_t rounds_of(const Op& op) { return is_loop(op) ? op.attr<int64_t>("count") : 1; }

Symbol gradient_of(const Op& op) {
  return op.role() == Role::kCall ? op.attr<GraphRef>("gradient").name : Symbol();
}

bool is_checkpoint(const Op& op) {
  const Attr* mark = op.role() == Role::kIdentity ? op.attrs().find("checkpoint") : nullptr;
  return mark && std::get<bool>(*mark);
}

}  // namespace poptorch::ir
