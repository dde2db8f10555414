#include "emulator/bind/node.hpp"

namespace poptorch::emulator {
namespace {

std::span<const ValueId> one(const ValueId& id) { return {&id, 1}; }

std::span<ValueId> writable(std::span<const ValueId> ids) {
  return {const_cast<ValueId*>(ids.data()), ids.size()};
}

}  // namespace

std::span<const ValueId> inputs_of(const Node& node) {
  using Ids = std::span<const ValueId>;
  return std::visit(Overloaded{[](const OpNode& op) -> Ids { return op.inputs; },
                               [](const ChainNode&) -> Ids { return {}; },
                               [](const RowsNode& rows) -> Ids { return rows.inputs; },
                               [](const ReorderNode& reorder) { return one(reorder.from); },
                               [](const CopyNode& copy) { return one(copy.from); },
                               [](const CollectiveNode& all) { return one(all.from); },
                               [](const TransferNode& move) -> Ids { return move.inputs; },
                               [](const LoopNode&) -> Ids { return {}; },
                               [](const BranchNode& branch) { return one(branch.condition); }},
                    static_cast<const AnyNode&>(node));
}

std::span<const ValueId> outputs_of(const Node& node) {
  using Ids = std::span<const ValueId>;
  return std::visit(Overloaded{[](const OpNode& op) -> Ids { return op.outputs; },
                               [](const RowsNode& rows) -> Ids { return rows.outputs; },
                               [](const ReorderNode& reorder) { return one(reorder.to); },
                               [](const CopyNode& copy) { return one(copy.to); },
                               [](const CollectiveNode& all) { return one(all.to); },
                               [](const TransferNode& move) -> Ids { return move.outputs; },
                               [](const auto&) -> Ids { return {}; }},
                    static_cast<const AnyNode&>(node));
}

std::span<ValueId> inputs_of(Node& node) { return writable(inputs_of(std::as_const(node))); }
std::span<ValueId> outputs_of(Node& node) { return writable(outputs_of(std::as_const(node))); }

Chain* chain_of(Node& node) { return const_cast<Chain*>(chain_of(std::as_const(node))); }

const Chain* chain_of(const Node& node) {
  if (const auto* chain = as<ChainNode>(node)) return &chain->chain;
  const auto* op = as<OpNode>(node);
  return op ? op->epilogue.get() : nullptr;
}

KernelCall* call_of(Node& node) { return const_cast<KernelCall*>(call_of(std::as_const(node))); }

const KernelCall* call_of(const Node& node) {
  if (const auto* op = as<OpNode>(node)) return &op->call;
  if (const auto* chain = as<ChainNode>(node)) return &chain->call;
  if (const auto* rows = as<RowsNode>(node)) return &rows->call;
  if (const auto* reorder = as<ReorderNode>(node)) return &reorder->call;
  return nullptr;
}

}  // namespace poptorch::emulator
