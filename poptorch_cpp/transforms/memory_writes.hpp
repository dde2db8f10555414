// Which memory the ops of one graph write: state slots (by name, whichever `variable` op reads
// them), by-reference inputs and values written in place. A snapshot: ask again after edits.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.hpp"

namespace poptorch::transforms {

// One `variable` op stands for all of a slot: values with equal keys share memory.
class MemoryWrites {
 public:
  explicit MemoryWrites(const ir::Graph& graph);

  // Some op of the graph writes the memory that `value` denotes.
  bool is_written(const ir::Value* value) const { return writers_.count(key_of(value)) != 0; }
  // The ops that write it, in list order.
  const std::vector<const ir::Op*>& writers_of(const ir::Value* value) const;
  bool writes_memory(const ir::Op& op) const { return writing_.count(&op) != 0; }
  // Calls a graph that has effects or draws random numbers.
  bool calls_with_effects(const ir::Op& op) const;

 private:
  // The state slot's symbol or the root value: an address, for look-up only.
  static const void* key_of(const ir::Value* value);

  std::unordered_map<const void*, std::vector<const ir::Op*>> writers_;
  std::unordered_set<const ir::Op*> writing_;
  std::unordered_set<const ir::Op*> effectful_calls_;
};

}  // namespace poptorch::transforms
