// Finds the live ops in one backward walk.
#include "partition/blocks.hpp"

#include <set>

#include "ir/effects.hpp"
#include "partition/place.hpp"
#include "support/error.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Value;

support::FlatSet<const Op*> live_ops(const ir::Graph& main) {
  support::FlatSet<const Value*> needed;
  needed.insert(main.outputs().begin(), main.outputs().end());
  support::FlatSet<const Op*> live;
  const std::vector<Op*> ops = main.op_list();
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const Op* op = *it;
    bool matters = !ir::is_removable(*op);
    for (size_t i = 0; i < op->result_count(); ++i) matters |= needed.contains(op->result(i));
    if (!matters) continue;
    live.insert(op);
    needed.insert(op->operands().begin(), op->operands().end());
  }
  return live;
}

}  // namespace

void refuse_dead_blocks(const ir::Module& module) {
  const support::FlatSet<const Op*> live = live_ops(module.main());
  std::set<support::Symbol> named;  // blocks with a live op
  for (const Op* op : module.main().ops()) {
    if (live.contains(op)) named.insert(op->placement.block);
  }
  for (const Op* op : module.main().ops()) {
    const support::Symbol block = op->placement.block;
    if (block.empty() || !has_place(*op) || named.contains(block)) continue;
    throw support::UserError(support::str(
        "[partition] block '", block, "' computes nothing that is used: ", describe(*op),
        " and what follows it reach no output of the model. Return or use the results, or leave "
        "unused layers out of blocks."));
  }
}

}  // namespace poptorch::partition
