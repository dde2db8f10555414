// join_runs joins a chain with the reduction or scan of its result into one kernel, which takes the
// elements run by run as it needs them (taken_runs.hpp). They stay in the cache, and need no memory
// if nothing else reads them. The reduction runs where the chain did.
#include <algorithm>

#include "emulator/bind/rows_node.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

class RunJoiner {
 public:
  RunJoiner(Plan& plan, const KernelMaker& maker, std::vector<Node>& block,
            const Table<StorageId, int>& uses)
      : plan_(plan), maker_(maker), block_(block), uses_(uses) {}

  void run() {
    std::vector<bool> gone(block_.size(), false);
    for (size_t i = 0; i < block_.size(); ++i) {
      support::check_interrupt();
      for_each_block(block_[i], [&](std::vector<Node>& inner) {
        RunJoiner(plan_, maker_, inner, uses_).run();
      });
      const auto* chain = as<ChainNode>(block_[i]);
      if (gone[i] || !chain) continue;
      const size_t reader = reader_of(i, *chain);
      if (reader == i) continue;
      join(i, reader);
      gone[reader] = true;
    }
    size_t next = 0;
    std::erase_if(block_, [&](const Node&) { return gone[next++]; });
  }

 private:
  // Returns the node that can take what the chain makes; the chain's own number if there is none.
  size_t reader_of(size_t at, const ChainNode& node) const {
    for (ValueId made : node.chain.outputs) {
      const ir::Type& type = plan_.value(made).type;
      const Storage& storage = plan_.storage_of(made);
      if (storage.base != Base::kArena || storage.writers != 1) continue;
      if (type.elements() < plan_.options.least_joined) continue;
      if (!plan_.is_by_parts(made, node.chain.space, 1) || !are_used(node.chain, made)) continue;
      for (size_t i = at + 1; i < block_.size(); ++i) {
        const bool reads = accesses(block_[i], plan_.value(made).storage);
        if (reads && takes(block_[i], made) && can_move(i, at)) return i;
      }
    }
    return at;
  }

  // Returns whether other nodes use all results but `made`: the kernel holds only one value.
  bool are_used(const Chain& chain, ValueId made) const {
    return std::ranges::all_of(chain.outputs, [&](ValueId id) {
      return id == made || uses_[plan_.value(id).storage] > 1;
    });
  }

  bool accesses(const Node& node, StorageId storage) const {
    bool found = false;
    for_each_access(plan_, node, [&](int32_t id, bool) { found |= id == storage; });
    return found;
  }

  bool takes(const Node& node, ValueId made) const {
    const auto* op = as<OpNode>(node);
    if (!op || op->epilogue || op->inputs.size() != 1 || op->outputs.size() != 1) return false;
    if (op->outputs[0] == kNoValue || !op->def->writes.empty()) return false;
    if (!has_fast_kernel(op->call) || op->call.prepared) return false;
    const Value &read = plan_.value(op->inputs[0]), &given = plan_.value(made);
    return read.type.dtype == given.type.dtype && read.type.elements() == given.type.elements() &&
           plan_.is_by_parts(op->inputs[0], read.type.shape, 1) &&
           plan_.is_by_parts(op->outputs[0], plan_.value(op->outputs[0]).type.shape, 1) &&
           plan_.storage_of(op->outputs[0]).base == Base::kArena &&
           op->call.kernel->bound->elements_at_once() > 0;
  }

  // Returns whether no node from `to` to `from` accesses what node `from` makes.
  bool can_move(size_t from, size_t to) const {
    const StorageId made = plan_.value(as<OpNode>(block_[from])->outputs[0]).storage;
    for (size_t i = to; i < from; ++i) {
      if (accesses(block_[i], made)) return false;
    }
    return true;
  }

  void join(size_t chain, size_t reader) {
    const ValueId workspace = call_of(block_[reader])->workspace;
    std::vector<Node> members;
    members.push_back(std::move(block_[chain]));
    members.push_back(std::move(block_[reader]));
    RowsNode joined = make_rows_node(plan_, maker_, 1, std::move(members), uses_);
    joined.call.workspace = workspace;
    block_[chain] = std::move(joined);
  }

  Plan& plan_;
  const KernelMaker& maker_;
  std::vector<Node>& block_;
  const Table<StorageId, int>& uses_;
};

}  // namespace

void join_runs(Plan& plan) {
  if (!plan.options.fuse || plan.options.reference_only) return;
  const Table<StorageId, int> uses = count_accesses(plan);
  const KernelMaker maker(plan.program, plan.registry, plan, plan.instructions,
                          plan.options.threads);
  for (auto& body : plan.bodies) RunJoiner(plan, maker, body, uses).run();
}

}  // namespace poptorch::emulator
