#include "ir/memory_writes.hpp"

#include "ir/effects.hpp"
#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/flat_map.hpp"

namespace poptorch::ir {

const CalleeEffects& CalleeAnalysis::of(const Graph& graph) {
  auto [it, is_new] = known_.try_emplace(&graph);
  if (!is_new) return it->second;
  CalleeEffects effects;
  effects.inputs.resize(graph.inputs().size());
  for (const Op* op : graph.ops()) {
    effects.any |= op->def().has_effect() || op->def().random || op->role() == Role::kState;
    for_each_write(*op, [&](const Value* written) {
      const Value* root = memory_root(written);
      if (!root->producer()) {
        effects.inputs[root->index()] = true;
      } else if (const std::string* slot = slot_of(root->producer())) {
        effects.slots.insert(*slot);
      }
    });
    for_each_callee(*op, [&](const CalleeEffects& inner) {
      effects.any |= inner.any;
      effects.slots.insert(inner.slots.begin(), inner.slots.end());
    });
  }
  return known_[&graph] = std::move(effects);
}

void CalleeAnalysis::for_each_callee(const Op& op,
                                     const std::function<void(const CalleeEffects&)>& visit) {
  for (const auto& [name, runs] : named_graphs(op)) {
    const Graph* callee = runs ? module_.find_graph(name) : nullptr;
    if (callee) visit(of(*callee));
  }
}

void CalleeAnalysis::for_each_write(const Op& op, const std::function<void(const Value*)>& visit) {
  for (int index : op.def().writes) {
    if (const Value* value = op.operand(static_cast<size_t>(index))) visit(value);
  }
  for_each_callee(op, [&](const CalleeEffects& callee) {
    for (size_t i = 0; i < callee.inputs.size(); ++i) {
      if (callee.inputs[i]) visit(op.operand(first_argument(op) + i));
    }
  });
}

MemoryWrites::MemoryWrites(const Graph& graph) {
  CalleeAnalysis callees(graph.module());
  for (const Op* op : graph.ops()) {
    callees.for_each_write(*op, [&](const Value* written) {
      writers_[key_of(written)].push_back(op);
      writing_.insert(op);
    });
    callees.for_each_callee(*op, [&](const CalleeEffects& callee) {
      if (callee.any) effectful_calls_.insert(op);
      for (Symbol slot : callee.slots) {
        writers_[&slot.text()].push_back(op);
        writing_.insert(op);
      }
    });
  }
}

const std::vector<const Op*>& MemoryWrites::writers_of(const Value* value) const {
  static const std::vector<const Op*> none;
  auto it = writers_.find(key_of(value));
  return it == writers_.end() ? none : it->second;
}

bool MemoryWrites::calls_with_effects(const Op& op) const { return effectful_calls_.contains(&op); }

const void* MemoryWrites::key_of(const Value* value) {
  const Value* root = memory_root(value);
  if (const std::string* slot = slot_of(root->producer())) return &Symbol(*slot).text();
  return root;
}

}  // namespace poptorch::ir
