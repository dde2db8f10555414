// fuse_chains gathers element-wise ops into groups within a block.
//
// A group stays open while no node outside it has accessed what it writes or written what it reads.
// While it is open, all its members may be delayed to the place of the newest one. Open groups are
// independent of each other, hence may be merged.
#include <algorithm>
#include <set>

#include "emulator/bind/plan.hpp"
#include "emulator/bind/storage_set.hpp"
#include "emulator/kernels/base/tile_program.hpp"
#include "support/flat_map.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

constexpr size_t kMaxOps = 40;
// A group closes this many nodes after its newest member. This keeps the search linear, and a chain
// near the values that it reads.
constexpr size_t kWindow = 128;

struct Group {
  std::vector<size_t> members;  // nodes of the block
  ir::Shape space;
  int micro_batch_offset = 0;
  StorageSet reads, writes;
  StorageCounts operands;  // how often members have each as an operand
  // Storages that a member accesses with a shape other than the space's, at an offset or by
  // strides.
  StorageSet partial;
  bool open = true;
};

const ir::Shape& space_of(const Plan& plan, const ir::OpDef& def,
                          const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs) {
  return plan.value(outputs.empty() ? inputs[def.writes[0]] : outputs[0]).type.shape;
}

class ChainFuser {
 public:
  ChainFuser(Plan& plan, std::vector<Node>& block) : plan_(plan), block_(block) {}

  void run() {
    for (size_t i = 0; i < block_.size(); ++i) {
      support::check_interrupt();
      Node& node = block_[i];
      now_ = i;
      const auto* op = as<OpNode>(node);
      if (has_blocks(node)) {
        close_all();
        for_each_block(node, [&](std::vector<Node>& inner) { ChainFuser(plan_, inner).run(); });
      } else if (op && is_part(*op)) {
        add(i);
      } else {
        close_conflicts(node);
      }
    }
    replace_members();
  }

 private:
  const OpNode& op_at(size_t index) const { return *as<OpNode>(block_[index]); }

  bool is_part(const OpNode& node) const {
    return is_fusible(plan_, *node.def, node.instruction->attrs, node.inputs, node.outputs);
  }

  Group single(size_t index) const {
    const OpNode& node = op_at(index);
    Group group;
    group.members = {index};
    group.space = space_of(plan_, *node.def, node.inputs, node.outputs);
    group.micro_batch_offset = node.instruction->micro_batch_offset;
    for_each_access(plan_, block_[index], [&](int32_t storage, bool write) {
      (write ? group.writes : group.reads).insert(storage);
    });
    auto note_partial = [&](ValueId id) {
      if (id == kNoValue) return;
      const Value& value = plan_.value(id);
      if (!plan_.fills(id, group.space) || value.offset != 0) group.partial.insert(value.storage);
    };
    for (ValueId id : node.inputs) {
      note_partial(id);
      if (id != kNoValue) group.operands.add(plan_.value(id).storage);
    }
    for (ValueId id : node.outputs) note_partial(id);
    return group;
  }

  std::vector<int> touching(int32_t storage) {
    std::vector<int> found;
    auto it = touched_.find(storage);
    if (it == touched_.end()) return found;
    for (int group : it->second) {
      while (merged_into_[group] != group) {
        group = merged_into_[group];
      }
      Group& candidate = groups_[group];
      if (candidate.members.back() + kWindow < now_) candidate.open = false;
      if (candidate.open) found.push_back(group);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    it->second = found;
    return found;
  }

  // Returns whether the two may be one group, as far as `storage` is concerned.
  static bool agree(const Group& a, const Group& b, int32_t storage) {
    return a.space == b.space && a.micro_batch_offset == b.micro_batch_offset &&
           !a.partial.contains(storage) && !b.partial.contains(storage);
  }

  static bool hazard(const Group& a, const Group& b, int32_t storage) {
    return a.writes.contains(storage) || b.writes.contains(storage);
  }

  void add(size_t index) {
    Group group = single(index);
    StorageSet storages = group.reads;
    storages.insert(group.writes);
    std::set<int> joining;
    for (int32_t storage : storages) {
      for (int candidate : touching(storage)) {
        Group& other = groups_[candidate];
        const bool conflict = hazard(group, other, storage);
        if (plan_.options.fuse && agree(group, other, storage)) {
          joining.insert(candidate);
        } else if (conflict) {
          other.open = false;
        }
      }
    }
    int home = -1;
    for (int candidate : joining) {
      Group& other = groups_[candidate];
      if (!other.open) continue;
      const bool fits = other.members.size() + group.members.size() <= kMaxOps &&
                        buffers_of(other, group) <= static_cast<size_t>(kMaxChainBuffers);
      if (!fits || conflicts_elsewhere(group, other)) {
        close_if_conflicting(group, other);
        continue;
      }
      merge(group, other);
      if (home < 0) home = candidate;
      merged_into_[candidate] = home;
      other.open = false;
    }
    if (home < 0) {
      home = static_cast<int>(groups_.size());
      groups_.emplace_back();
      merged_into_.push_back(home);
    }
    for (int32_t storage : storages) touched_[storage].push_back(home);
    groups_[home] = std::move(group);
  }

  // Returns the number of buffers that a chain of both would read from outside or store. The number
  // is an upper bound: if later members read more of the results, those need not be stored.
  size_t buffers_of(const Group& a, const Group& b) const {
    StorageSet writes = a.writes, reads = a.reads;
    writes.insert(b.writes);
    reads.insert(b.reads);
    const auto stored = [&](int32_t storage) {
      return is_stored(storage, a.operands.of(storage) + b.operands.of(storage));
    };
    size_t count = 0;
    for (int32_t storage : writes) count += stored(storage);
    for (int32_t storage : reads) count += !writes.contains(storage) || stored(storage);
    return count;
  }

  // Returns whether a value that a chain writes there is needed after the chain.
  bool is_stored(int32_t id, int own_reads) const {
    const Storage& storage = plan_.storages[id];
    return storage.base == Base::kState || storage.writers > 1 || storage.readers > own_reads;
  }

  // Returns whether there is a hazard through a storage in `partial` of one of the two.
  static bool conflicts_elsewhere(const Group& a, const Group& b) {
    for (const Group* one : {&a, &b}) {
      const Group& two = one == &a ? b : a;
      for (int32_t storage : one->partial) {
        const bool seen = two.reads.contains(storage) || two.writes.contains(storage);
        if (seen && hazard(a, b, storage)) return true;
      }
    }
    return false;
  }

  static void close_if_conflicting(const Group& group, Group& other) {
    for (int32_t storage : group.writes) {
      if (other.reads.contains(storage) || other.writes.contains(storage)) other.open = false;
    }
    for (int32_t storage : group.reads) {
      if (other.writes.contains(storage)) other.open = false;
    }
  }

  static void merge(Group& into, const Group& from) {
    into.members.insert(into.members.end(), from.members.begin(), from.members.end());
    std::sort(into.members.begin(), into.members.end());
    into.reads.insert(from.reads);
    into.writes.insert(from.writes);
    into.partial.insert(from.partial);
    into.operands.add(from.operands);
  }

  void close_all() {
    for (Group& group : groups_) group.open = false;
  }

  void close_conflicts(const Node& node) {
    for_each_access(plan_, node, [&](int32_t storage, bool write) {
      for (int candidate : touching(storage)) {
        Group& group = groups_[candidate];
        if (write || group.writes.contains(storage)) group.open = false;
      }
    });
  }

  void replace_members() {
    std::vector<int> group_ending_at(block_.size(), -1);
    std::vector<bool> member(block_.size(), false);
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (merged_into_[i] != static_cast<int>(i)) continue;
      for (size_t index : groups_[i].members) member[index] = true;
      group_ending_at[groups_[i].members.back()] = static_cast<int>(i);
    }
    std::vector<Node> result;
    for (size_t i = 0; i < block_.size(); ++i) {
      if (group_ending_at[i] >= 0) {
        Chain chain = make_chain(groups_[group_ending_at[i]]);
        if (!chain.outputs.empty()) result.emplace_back(ChainNode{std::move(chain)});
      } else if (!member[i]) {
        result.push_back(std::move(block_[i]));
      }
    }
    block_ = std::move(result);
  }

  Chain make_chain(const Group& group) {
    Chain chain{.space = group.space};
    support::FlatMap<int32_t, int> internal_reads;
    std::set<int32_t> produced, given;
    std::vector<ValueId> written;
    for (size_t index : group.members) {
      const OpNode& node = op_at(index);
      for (ValueId id : node.inputs) {
        if (id == kNoValue) continue;
        const int32_t storage = plan_.value(id).storage;
        ++internal_reads[storage];
        const bool known = std::any_of(chain.inputs.begin(), chain.inputs.end(),
                                       [&](ValueId other) { return plan_.same_memory(id, other); });
        if (!known && !produced.count(storage)) chain.inputs.push_back(id);
      }
      auto note = [&](ValueId id) {
        if (produced.insert(plan_.value(id).storage).second) written.push_back(id);
      };
      const std::vector<ValueId> results = results_of(*node.def, node.inputs, node.outputs);
      for (ValueId id : results) note(id);
      chain.draws |= draws_in_order(*node.def);
      chain.ops.push_back({node.instruction, node.number, node.def, node.inputs, results});
    }
    for (ValueId id : written) {
      const int32_t storage = plan_.value(id).storage;
      if (is_stored(storage, internal_reads[storage])) chain.outputs.push_back(id);
    }
    return chain;
  }

  Plan& plan_;
  std::vector<Node>& block_;
  size_t now_ = 0;  // the current node
  Table<int, Group> groups_;
  Table<int, int> merged_into_;                          // by group
  support::FlatMap<int32_t, std::vector<int>> touched_;  // open groups by storage
};

}  // namespace

bool is_fusible(const Plan& plan, const ir::OpDef& def, const ir::Attrs& attrs,
                const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs) {
  if (!def.elementwise && def.writes.empty()) return false;
  if (outputs.empty() && def.writes.empty()) return false;
  std::vector<ir::DType> operands;
  const ir::Shape& space = space_of(plan, def, inputs, outputs);
  for (ValueId id : inputs) {
    if (id == kNoValue) continue;
    operands.push_back(plan.value(id).type.dtype);
    auto together = ir::broadcast(plan.value(id).type.shape, space);
    if (!together || *together != space) return false;
  }
  for (ValueId id : outputs) {
    if (id == kNoValue || plan.value(id).type.shape != space) return false;
  }
  std::vector<ir::DType> results;
  for (ValueId id : results_of(def, inputs, outputs)) {
    if (plan.value(id).type.shape != space) return false;
    results.push_back(plan.value(id).type.dtype);
  }
  if (ir::element_count(space) == 0) return false;
  return TileProgramBuilder::supports(def, attrs, operands, results);
}

void fuse_chains(Plan& plan) {
  if (plan.options.reference_only) return;
  for (auto& body : plan.bodies) ChainFuser(plan, body).run();
}

}  // namespace poptorch::emulator
