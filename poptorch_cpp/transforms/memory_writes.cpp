// Implements memory_writes.hpp.
#include "transforms/memory_writes.hpp"

#include <set>

#include "ir/effects.hpp"
#include "ir/module.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

// What a called graph may do, seen from outside.
struct CalleeEffects {
  bool any = false;            // effects, random numbers or state, at any depth
  std::vector<bool> inputs;    // written through a reference
  std::set<ir::Symbol> slots;  // state slots written
};

}  // namespace

// Walks called graphs once each.
class CalleeAnalysis {
 public:
  explicit CalleeAnalysis(const ir::Module& module) : module_(module) {}

  const CalleeEffects& of(const Graph& graph) {
    auto [it, is_new] = known_.try_emplace(&graph);
    if (!is_new) return it->second;
    CalleeEffects effects;
    effects.inputs.resize(graph.inputs().size());
    for (const Op* op : graph.ops()) {
      effects.any |= op->def().has_effect() || op->def().random || op->is("variable");
      for_each_write(*op, [&](const Value* written) {
        const Value* root = ir::memory_root(written);
        if (!root->producer()) {
          effects.inputs[root->index()] = true;
        } else if (root->producer()->is("variable")) {
          effects.slots.insert(root->producer()->attr<std::string>("name"));
        }
      });
      for_each_callee(*op, [&](const CalleeEffects& inner, size_t) {
        effects.any |= inner.any;
        effects.slots.insert(inner.slots.begin(), inner.slots.end());
      });
    }
    return known_[&graph] = std::move(effects);
  }

  // Calls `visit(effects, index of the operand that is the callee's first input)`.
  template <typename Visit>
  void for_each_callee(const Op& op, Visit visit) {
    for (const auto& [key, value] : op.attrs()) {
      const auto* reference = std::get_if<ir::GraphRef>(&value);
      if (!reference || key == ir::Symbol("gradient")) continue;
      const Graph* callee = module_.find_graph(reference->name);
      if (callee) visit(of(*callee), op.operand_count() - callee->inputs().size());
    }
  }

  template <typename Visit>
  void for_each_write(const Op& op, Visit visit) {
    for (int index : op.def().writes) {
      if (const Value* value = op.operand(static_cast<size_t>(index))) visit(value);
    }
    for_each_callee(op, [&](const CalleeEffects& callee, size_t first) {
      for (size_t i = 0; i < callee.inputs.size(); ++i) {
        if (callee.inputs[i]) visit(op.operand(first + i));
      }
    });
  }

 private:
  const ir::Module& module_;
  std::unordered_map<const Graph*, CalleeEffects> known_;
};

MemoryWrites::MemoryWrites(const ir::Graph& graph) {
  CalleeAnalysis callees(graph.module());
  for (const Op* op : graph.ops()) {
    callees.for_each_write(*op, [&](const Value* written) {
      writers_[key_of(written)].push_back(op);
      writing_.insert(op);
    });
    callees.for_each_callee(*op, [&](const CalleeEffects& callee, size_t) {
      if (callee.any) effectful_calls_.insert(op);
      for (ir::Symbol slot : callee.slots) {
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

bool MemoryWrites::calls_with_effects(const Op& op) const { return effectful_calls_.count(&op); }

const void* MemoryWrites::key_of(const Value* value) {
  const Value* root = ir::memory_root(value);
  const Op* op = root->producer();
  if (op && op->is("variable")) return &ir::Symbol(op->attr<std::string>("name")).text();
  return root;
}

}  // namespace poptorch::transforms
