// The memory that the ops of one graph write: state slots (by name, whichever `variable` op reads
// them), by-reference inputs and values written in place. A snapshot: analyse again after edits.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.hpp"
#include "support/flat_map.hpp"

namespace poptorch::ir {

// The effects of a called graph, as its callers see them.
struct CalleeEffects {
  bool any = false;          // effects, random numbers or state, at any depth
  std::vector<bool> inputs;  // written through a reference
  std::set<Symbol> slots;    // state slots written
};

// Walks each called graph once; no graph may call itself.
class CalleeAnalysis {
 public:
  explicit CalleeAnalysis(const Module& module) : module_(module) {}

  const CalleeEffects& of(const Graph& graph);
  // Visits the effects of each graph that `op` runs.
  void for_each_callee(const Op& op, const std::function<void(const CalleeEffects&)>& visit);
  // Visits each operand that `op` writes, itself or in a graph that it runs.
  void for_each_write(const Op& op, const std::function<void(const Value*)>& visit);

 private:
  const Module& module_;
  std::unordered_map<const Graph*, CalleeEffects> known_;  // look-up only
};

// Maps memory to the ops that write it. All `variable` ops of a slot count as one: values with
// equal keys share memory.
class MemoryWrites {
 public:
  explicit MemoryWrites(const Graph& graph);

  // Returns whether any op of the graph writes the memory that `value` denotes.
  bool is_written(const Value* value) const { return writers_.contains(key_of(value)); }
  // Returns the ops that write it, in list order.
  const std::vector<const Op*>& writers_of(const Value* value) const;
  bool writes_memory(const Op& op) const { return writing_.contains(&op); }
  // Returns whether `op` calls a graph that has effects or draws random numbers.
  bool calls_with_effects(const Op& op) const;

 private:
  // Returns the address of the state slot's symbol or the root value, for look-up only.
  static const void* key_of(const Value* value);

  support::FlatMap<const void*, std::vector<const Op*>> writers_;
  support::FlatSet<const Op*> writing_;
  support::FlatSet<const Op*> effectful_calls_;
};

}  // namespace poptorch::ir
