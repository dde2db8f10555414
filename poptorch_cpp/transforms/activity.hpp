// Finds the values of a graph that depend differentiably on the values whose gradients are wanted.
#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "ir/memory_writes.hpp"
#include "support/flat_map.hpp"

namespace poptorch::transforms {

class Activity {
 public:
  // Walks over the graph once. A `variable` in `wanted` stands for every read of its slot.
  Activity(const ir::Graph& graph, const ir::MemoryWrites& writes,
           const std::vector<ir::Value*>& wanted);

  bool is_active(const ir::Value* value) const { return active_.contains(value); }
  // Returns the op that wrote an active value into the memory that `reader` reads as operand `i`,
  // or nullptr. No gradient can pass back through such a write.
  const ir::Op* active_writer(const ir::Op* reader, size_t i) const;
  bool needs_gradient(const ir::Op& op, size_t i) const {
    const ir::Value* operand = op.operand(i);
    return operand && (is_active(operand) || active_writer(&op, i));
  }

 private:
  const ir::MemoryWrites& writes_;
  support::FlatSet<const ir::Value*> active_;
  support::FlatSet<const ir::Op*> active_writers_;
};

// Returns whether values of this element type have gradients.
bool is_differentiable(const ir::Type& type);

}  // namespace poptorch::transforms
