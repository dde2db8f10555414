#include "transforms/activity.hpp"

#include <set>

#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/flat_map.hpp"

namespace poptorch::transforms {

using ir::Op;
using ir::Value;

bool is_differentiable(const ir::Type& type) {
  return ir::is_float(type.dtype) || ir::is_complex(type.dtype);
}

Activity::Activity(const ir::Graph& graph, const ir::MemoryWrites& writes,
                   const std::vector<Value*>& wanted)
    : writes_(writes) {
  std::set<ir::Symbol> slots;
  for (const Value* value : wanted) {
    active_.insert(value);
    if (const std::string* slot = ir::slot_of(value->producer())) slots.insert(*slot);
  }
  for (const Op* op : graph.ops()) {
    if (op->def().stops_gradient()) continue;
    if (const std::string* slot = ir::slot_of(op)) {
      if (slots.count(*slot)) active_.insert(op->result());
      continue;
    }
    bool active = false, active_source = false;
    for (size_t i = 0; i < op->operand_count(); ++i) {
      if (!needs_gradient(*op, i)) continue;
      active = true;
      active_source |= !op->def().writes_operand(i);
    }
    if (!active) continue;
    if (active_source && writes.writes_memory(*op)) active_writers_.insert(op);
    for (size_t i = 0; i < op->result_count(); ++i) {
      if (is_differentiable(op->result(i)->type())) active_.insert(op->result(i));
    }
  }
}

const Op* Activity::active_writer(const Op* reader, size_t i) const {
  if (active_writers_.empty()) return nullptr;
  const Value* operand = reader->operand(i);
  if (!is_differentiable(operand->type())) return nullptr;
  for (const Op* writer : writes_.writers_of(operand)) {
    // The result of an op that writes in place denotes the memory after that write.
    if (writer != operand->producer() && active_writers_.contains(writer) &&
        writer->is_before(reader)) {
      return writer;
    }
  }
  return nullptr;
}

}  // namespace poptorch::transforms
