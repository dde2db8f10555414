#include "partition/smallest_form.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/effects.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "partition/place.hpp"
#include "support/saturate.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Value;

class Forms {
 public:
  explicit Forms(const ir::Graph& main) : main_(main), constants_(constant_values(main)) {}

  std::unordered_set<const Value*> run() {
    for (const Op* op : main_.ops()) {
      for (int index : op->def().writes) {
        const Value* value = op->operand(static_cast<size_t>(index));
        if (value) written_.insert(ir::memory_root(value));
      }
    }
    for (const Op* op : main_.ops()) {
      if (is_cheap(*op)) note(*op);
    }
    return std::move(enlarged_);
  }

 private:
  bool is_cheap(const Op& op) const {
    const ir::OpDef& def = op.def();
    const bool cheap = def.elementwise || def.is_view() || def.role == ir::Role::kBroadcast;
    return cheap && op.result_count() == 1 && is_inner(op) && ir::is_pure(op) &&
           !written_.count(op.result()) && !constants_.count(op.result()) &&
           std::none_of(op.operands().begin(), op.operands().end(),
                        [&](const Value* value) { return value && written_.count(value); });
  }

  // Compares the bytes to send for the operands with those of the result.
  void note(const Op& op) {
    int64_t bytes = 0;
    std::unordered_set<const Value*> seen;
    for (const Value* value : op.operands()) {
      if (!value || constants_.count(value) || !seen.insert(value).second) continue;
      const auto smaller = bytes_.find(value);
      bytes = support::saturating_sum(
          bytes, smaller == bytes_.end() ? value->type().bytes() : smaller->second);
    }
    const int64_t own = op.result()->type().bytes();
    if (bytes > own / 2) return;
    bytes_[op.result()] = bytes;
    enlarged_.insert(op.result());
  }

  const ir::Graph& main_;
  // These are for look-up only.
  std::unordered_set<const Value*> constants_, written_, enlarged_;
  std::unordered_map<const Value*, int64_t> bytes_;  // of the smallest form of enlarged values
};

}  // namespace

std::unordered_set<const Value*> enlarged_values(const ir::Graph& main) {
  return Forms(main).run();
}

}  // namespace poptorch::partition
