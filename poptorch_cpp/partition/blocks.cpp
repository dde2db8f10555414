// Implements blocks.hpp: liveness, backwards.
#include "partition/blocks.hpp"

#include <map>
#include <unordered_set>

#include "ir/effects.hpp"
#include "partition/place.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Value;

std::unordered_set<const Op*> live_ops(const ir::Graph& main) {
  std::unordered_set<const Value*> needed(main.outputs().begin(), main.outputs().end());
  std::unordered_set<const Op*> live;
  const std::vector<Op*> ops = main.op_list();
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const Op* op = *it;
    bool matters = !ir::is_removable(*op);
    for (size_t i = 0; i < op->result_count(); ++i) matters |= needed.count(op->result(i)) != 0;
    if (!matters) continue;
    live.insert(op);
    needed.insert(op->operands().begin(), op->operands().end());
  }
  return live;
}

}  // namespace

void refuse_dead_blocks(const ir::Module& module, const transforms::BlockNames& blocks) {
  const std::unordered_set<const Op*> live = live_ops(module.main());
  std::map<int, const Op*> dead;  // by stage: its first op
  for (const Op* op : module.main().ops()) {
    if (has_place(*op) && blocks.count(op->placement.stage)) dead.emplace(op->placement.stage, op);
  }
  for (const Op* op : live) dead.erase(op->placement.stage);
  if (dead.empty()) return;
  const auto& [stage, op] = *dead.begin();
  throw support::UserError(support::str(
      "[partition] block '", blocks.at(stage), "' computes nothing that is used: ",
      describe(*op, blocks), " and what follows it reach no output of the model. Return or use ",
      "the results, or leave unused layers out of blocks."));
}

}  // namespace poptorch::partition
