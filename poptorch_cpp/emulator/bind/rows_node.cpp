#include "emulator/bind/rows_node.hpp"

#include <algorithm>
#include <map>

namespace poptorch::emulator {
namespace {

// Decides which values only the members use.
void hold_values(Plan& plan, const std::vector<Node>& members, const Table<StorageId, int>& uses) {
  std::map<StorageId, int> own;
  std::map<StorageId, bool> made;
  for (const Node& member : members) {
    for_each_value(member, [&](ValueId id, bool write) {
      const StorageId storage = plan.value(id).storage;
      ++own[storage];
      made.try_emplace(storage, write);
    });
  }
  for (const auto& [storage, count] : own) {
    Storage& memory = plan.storages[storage];
    const bool free = memory.base == Base::kArena && !memory.kept && !memory.meets;
    memory.held = free && made[storage] && count == uses[storage];
  }
}

}  // namespace

Table<StorageId, int> count_accesses(const Plan& plan) {
  Table<StorageId, int> uses(plan.storages.size());
  for (const auto& body : plan.bodies) {
    for (const Node& node : body) {
      for_each_access(plan, node, [&](int32_t storage, bool) { ++uses[storage]; });
    }
  }
  return uses;
}

bool has_fast_kernel(const KernelCall& call) {
  if (!call.kernel) return false;
  const auto* op = std::get_if<OpSpec>(&call.kernel->spec);
  return !op || op->provider == Provider::kFast;
}

RowsNode make_rows_node(Plan& plan, const KernelMaker& maker, int64_t rows,
                        std::vector<Node> members, const Table<StorageId, int>& uses) {
  RowsNode joined;
  joined.rows = rows;
  hold_values(plan, members, uses);
  RowsSpec spec{.rows = rows};
  for (Node& member : members) {
    for_each_value(member, [&](ValueId id, bool write) {
      if (plan.storage_of(id).held) return;
      auto& ids = write ? joined.outputs : joined.inputs;
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    });
    KernelSpec own = call_of(member)->kernel->spec;
    if (auto* op = std::get_if<OpSpec>(&own)) spec.members.emplace_back(std::move(*op));
    if (auto* chain = std::get_if<ChainSpec>(&own)) spec.members.emplace_back(std::move(*chain));
  }
  joined.members = std::move(members);
  joined.call.kernel = std::make_unique<Kernel>(maker.make(std::move(spec)));
  return joined;
}

}  // namespace poptorch::emulator
