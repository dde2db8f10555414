// Merges common subexpressions in one forward walk per graph, with a hash table of earlier ops.
#include <bit>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "ir/effects.hpp"
#include "ir/memory_writes.hpp"
#include "ir/op_def.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::Op;
using ir::Value;

void mix(size_t& hash, size_t part) {
  hash ^= part + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
}

struct AttrHash {
  size_t operator()(bool x) const { return x; }
  size_t operator()(int64_t x) const { return std::hash<int64_t>()(x); }
  size_t operator()(double x) const { return std::hash<uint64_t>()(std::bit_cast<uint64_t>(x)); }
  size_t operator()(const std::string& x) const { return std::hash<std::string>()(x); }
  size_t operator()(ir::DType x) const { return static_cast<size_t>(x); }
  size_t operator()(const ir::GraphRef& x) const { return (*this)(x.name.text()); }
  size_t operator()(const ir::Literal& x) const {
    const auto size = static_cast<size_t>(x.type().bytes());
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(x.data()), size});
  }
  template <typename T>
  size_t operator()(const std::vector<T>& xs) const {
    size_t hash = xs.size();
    for (const T& x : xs) mix(hash, (*this)(x));
    return hash;
  }
};

// The key that two ops share if they compute the same. Addresses only find candidates in the table:
// which op survives depends only on the order of the list.
struct Expression {
  const Op* op;
  uint64_t epoch;  // writes so far, for an op that reads written memory
};

struct Hash {
  size_t operator()(const Expression& e) const {
    size_t hash = std::hash<const void*>()(&e.op->def());
    mix(hash, e.epoch);
    for (const Value* operand : e.op->operands()) mix(hash, std::hash<const void*>()(operand));
    for (const auto& [key, value] : e.op->attrs()) mix(hash, std::visit(AttrHash(), value));
    return hash;
  }
};

bool is_forward(const Op& op) {
  return op.forward_id == 0 && op.placement.context == ir::ExecutionContext::kNormal;
}

// Returns whether ops with these placements may be merged. Forward ops may be in different blocks:
// merging affects the order in which gradients are added, which must not depend on blocks.
bool mergeable_places(const Op& a, const Op& b) {
  return a.placement == b.placement || (is_forward(a) && is_forward(b));
}

struct Same {
  bool operator()(const Expression& a, const Expression& b) const {
    if (a.epoch != b.epoch || &a.op->def() != &b.op->def() ||
        a.op->operands() != b.op->operands() || !mergeable_places(*a.op, *b.op) ||
        a.op->result_count() != b.op->result_count() || !(a.op->attrs() == b.op->attrs())) {
      return false;
    }
    for (size_t i = 0; i < a.op->result_count(); ++i) {
      if (a.op->result(i)->type() != b.op->result(i)->type()) return false;
    }
    return true;
  }
};

bool is_candidate(const Op& op, const ir::MemoryWrites& writes) {
  if (op.role() == ir::Role::kState) return true;
  if (op.role() == ir::Role::kLoss) return false;  // losses count one by one, even equal ones
  if (op.def().has_effect() || op.def().random || !op.after().empty() || op.result_count() == 0 ||
      writes.calls_with_effects(op)) {
    return false;
  }
  for (size_t i = 0; i < op.result_count(); ++i) {
    if (writes.is_written(op.result(i))) return false;
  }
  return true;
}

void merge(ir::Graph& graph) {
  const ir::MemoryWrites writes(graph);
  std::unordered_map<Expression, Op*, Hash, Same> known;
  std::unordered_set<const Op*> awaited;
  for (Op* op : graph.ops()) awaited.insert(op->after().begin(), op->after().end());
  uint64_t epoch = 0;
  for (Op* op : graph.ops()) {
    if (writes.writes_memory(*op)) ++epoch;
    if (!is_candidate(*op, writes) || awaited.count(op)) continue;
    bool reads_written = false;
    for (const Value* operand : op->operands()) {
      reads_written |= operand && writes.is_written(operand);
    }
    auto [it, is_new] = known.emplace(Expression{op, reads_written ? epoch : 0}, op);
    if (is_new) continue;
    // The operands are available in the earlier stage, too.
    if (op->placement.stage < it->second->placement.stage) it->second->placement = op->placement;
    for (size_t i = 0; i < op->result_count(); ++i) {
      op->result(i)->replace_all_uses_with(it->second->result(i));
    }
    graph.erase(op);
  }
}

}  // namespace

void merge_common_subexpressions(ir::Module& module) {
  for (const auto& graph : module.graphs()) merge(*graph);
}

}  // namespace poptorch::transforms
