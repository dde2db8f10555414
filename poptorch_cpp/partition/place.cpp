// Implements place.hpp.
#include "partition/place.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/builder.hpp"
#include "ir/effects.hpp"
#include "ir/text.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Value;

bool lives_everywhere(const Value* value) {
  const Op* op = ir::memory_root(value)->producer();
  return op && (op->is("constant") || op->is("variable"));
}

bool has_place(const Op& op) { return !op.is("constant") && !op.is("variable"); }

// Where each value of main lies; inputs are settled by their first use.
class Homes {
 public:
  // Returns the home, settling it to `ipu` when it is open.
  int of(const Value* value, int ipu) {
    if (const Op* op = value->producer()) {
      return op->is("ipu_copy") ? static_cast<int>(op->attr<int64_t>("to")) : op->placement.ipu;
    }
    return inputs_.emplace(value, ipu).first->second;
  }

 private:
  std::unordered_map<const Value*, int> inputs_;  // look-up only
};

}  // namespace

void place_ops(ir::Module& module) {
  ir::Graph& main = module.main();
  for (Op* op : main.ops()) {
    if (has_place(*op)) op->placement.ipu = std::max(op->placement.ipu, 0);
  }
  Homes homes;
  std::unordered_map<const Value*, std::map<int, Value*>> copied;  // look-up only
  for (Op* op : main.ops()) {
    if (!has_place(*op)) continue;
    const int ipu = op->placement.ipu;
    for (size_t i = 0; i < op->operand_count(); ++i) {
      Value* value = op->operand(i);
      if (!value || lives_everywhere(value)) continue;
      const int home = homes.of(value, ipu);
      if (home == ipu) continue;
      Value*& copy = copied[value][ipu];
      if (!copy) {
        ir::Builder builder(main, op);
        builder.copy_context(*op);
        builder.placement.ipu = home;
        copy = builder.value("ipu_copy", {value}, {{"to", int64_t{ipu}}});
        copy->set_name(value->name());
      }
      op->set_operand(i, copy);
    }
  }
}

void verify_placed(const ir::Module& module) {
  Homes homes;
  for (const Op* op : module.main().ops()) {
    if (!has_place(*op)) continue;
    if (op->placement.ipu < 0) {
      throw support::InternalError(support::str("[placed] ", ir::print(*op), " has no IPU."));
    }
    for (const Value* value : op->operands()) {
      if (!value || lives_everywhere(value)) continue;
      const int home = homes.of(value, op->placement.ipu);
      if (home != op->placement.ipu) {
        throw support::InternalError(support::str(
            "[placed] ", ir::print(*op), " uses a value of IPU ", home, " without a copy."));
      }
    }
  }
}

}  // namespace poptorch::partition
