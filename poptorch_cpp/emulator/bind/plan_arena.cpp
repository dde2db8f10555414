// plan_arena assigns an offset to every arena storage. A storage lives from its first write to its
// last access; one that is live into a loop lives until the loop ends. A result may reuse the
// memory of an operand whose life ends there, if the kernel allows it.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "emulator/bind/plan.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) {
  return std::max<int64_t>((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
}

struct Life {
  int64_t begin = -1, end = -1;
};

// Allocates by best fit in the gaps of an arena that grows at its end.
class Gaps {
 public:
  int64_t take(int64_t bytes) {
    auto best = gaps_.end();
    for (auto it = gaps_.begin(); it != gaps_.end(); ++it) {
      if (it->second >= bytes && (best == gaps_.end() || it->second < best->second)) best = it;
    }
    if (best == gaps_.end()) return grow(bytes);
    const auto [offset, size] = *best;
    gaps_.erase(best);
    if (size > bytes) gaps_.emplace(offset + bytes, size - bytes);
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    auto next = gaps_.lower_bound(offset);
    if (next != gaps_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        gaps_.erase(previous);
      }
    }
    if (next != gaps_.end() && offset + bytes == next->first) {
      bytes += next->second;
      gaps_.erase(next);
    }
    gaps_.emplace(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  int64_t grow(int64_t bytes) {
    int64_t offset = end_;
    if (!gaps_.empty()) {
      auto last = std::prev(gaps_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        gaps_.erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  std::map<int64_t, int64_t> gaps_;  // offset → size
  int64_t end_ = 0;
};

class ArenaPlanner {
 public:
  explicit ArenaPlanner(Plan& plan)
      : plan_(plan), lives_(plan.storages.size()), home_(plan.storages.size(), -1) {}

  int64_t run(std::vector<Node>& body) {
    walk(body);
    for (const Node* node : reusing_) reuse(*node);
    return place();
  }

 private:
  struct Region {
    int64_t begin;
    bool loop;
    std::set<int32_t> touched;
  };

  bool in_arena(int32_t storage) const { return plan_.storages[storage].base == Base::kArena; }
  Life& life(int32_t storage) { return lives_[storage]; }

  void touch(int32_t storage, bool write) {
    if (!in_arena(storage)) return;
    Life& alive = life(storage);
    if (alive.begin < 0) {
      alive.begin = position_;
      order_.push_back(storage);
      // A round might read it before it is written: it lives from the outermost region's begin on.
      const bool in_branch = std::any_of(regions_.begin(), regions_.end(),
                                         [](const Region& region) { return !region.loop; });
      if ((!write || in_branch) && !regions_.empty()) alive.begin = regions_.front().begin;
    }
    alive.end = position_;
    if (!regions_.empty()) regions_.back().touched.insert(storage);
  }

  void walk(std::vector<Node>& block) {
    for (Node& node : block) {
      support::check_interrupt();
      ++position_;
      if (has_blocks(node)) {
        for (ValueId id : inputs_of(node)) {
          if (id != kNoValue) touch(plan_.value(id).storage, false);
        }
        const bool loop = as<LoopNode>(node) != nullptr;
        for_each_block(node, [&](std::vector<Node>& inner) { walk_region(inner, loop); });
        continue;
      }
      for_each_access(plan_, node, [&](int32_t storage, bool write) {
        if (!write) touch(storage, false);
      });
      for_each_access(plan_, node, [&](int32_t storage, bool write) {
        if (write) touch(storage, true);
      });
      const KernelCall* call = call_of(node);
      if (!call) continue;
      if (call->workspace != kNoValue) touch(plan_.value(call->workspace).storage, true);
      reusing_.push_back(&node);
    }
  }

  void walk_region(std::vector<Node>& block, bool loop) {
    regions_.push_back({position_, loop, {}});
    walk(block);
    ++position_;
    const Region region = std::move(regions_.back());
    regions_.pop_back();
    for (int32_t storage : region.touched) {
      Life& alive = life(storage);
      if (region.loop && alive.begin <= region.begin) alive.end = position_;
      if (!regions_.empty()) regions_.back().touched.insert(storage);
    }
  }

  void reuse(const Node& node) {
    if (const Chain* chain = chain_of(node)) {
      for (ValueId output : chain->outputs) {
        for (ValueId input : chain->inputs) {
          if (input == kNoValue || is_one_of(inputs_of(node), input)) continue;
          if (is_one_of(chain->outputs, input)) continue;  // the chain also writes it
          if (is_read_elsewhere(*chain, input)) continue;
          if (plan_.fills(input, chain->space) && share(output, input)) break;
        }
      }
    }
    const auto* op = as<OpNode>(node);
    const KernelRow* row = op ? all_kernels().find(op->def->name) : nullptr;
    if (!row || plan_.options.reference_only) return;
    for (size_t i = 0; i < row->in_place_input.size() && i < op->outputs.size(); ++i) {
      const int operand = row->in_place_input[i];
      if (operand < 0 || operand >= static_cast<int>(op->inputs.size())) continue;
      const ValueId input = op->inputs[operand];
      if (input == kNoValue || op->outputs[i] == kNoValue) continue;
      const int32_t storage = plan_.value(input).storage;
      int seen = 0;
      for_each_access(plan_, node, [&](int32_t other, bool) { seen += other == storage; });
      if (seen == 1) share(op->outputs[i], input);
    }
  }

  // Returns whether `input` shares memory with one of `values`: with an operand of the kernel
  // itself, which an epilogue must not overwrite, or with a result of the chain.
  bool is_one_of(std::span<const ValueId> values, ValueId input) const {
    return std::any_of(values.begin(), values.end(), [&](ValueId id) {
      return id != kNoValue && plan_.value(id).storage == plan_.value(input).storage;
    });
  }

  // Returns whether the chain also reads the input's memory in another order.
  bool is_read_elsewhere(const Chain& chain, ValueId input) const {
    return std::any_of(chain.inputs.begin(), chain.inputs.end(), [&](ValueId id) {
      return id != kNoValue && plan_.value(id).storage == plan_.value(input).storage &&
             !plan_.same_memory(id, input);
    });
  }

  bool share(ValueId output, ValueId input) {
    const Value& to = plan_.value(output);
    const Value& from = plan_.value(input);
    const Storage& target = plan_.storage_of(output);
    const Storage& source = plan_.storage_of(input);
    if (!in_arena(to.storage) || !in_arena(from.storage) || to.storage == from.storage)
      return false;
    if (home_[to.storage] >= 0) return false;
    if (target.writers != 1 || life(to.storage).begin != life(from.storage).end) return false;
    if (to.offset != 0 || from.offset != 0 || target.bytes() != source.bytes()) return false;
    if (to.type.dtype != from.type.dtype || !(target.layout == source.layout)) return false;
    const int32_t root = root_of(from.storage);
    if (taken_.count(from.storage)) return false;
    taken_.insert(from.storage);
    home_[to.storage] = root;
    life(root).end = std::max(life(root).end, life(to.storage).end);
    return true;
  }

  int32_t root_of(int32_t storage) const {
    while (home_[storage] >= 0) storage = home_[storage];
    return storage;
  }

  int64_t place() {
    std::vector<int32_t> roots;
    for (int32_t storage : order_) {
      if (home_[storage] < 0) roots.push_back(storage);
    }
    std::stable_sort(roots.begin(), roots.end(),
                     [&](int32_t a, int32_t b) { return life(a).begin < life(b).begin; });
    Gaps gaps;
    for (int32_t root : roots) {
      if (plan_.storages[root].kept) life(root) = {-1, position_ + 1};
    }
    std::stable_partition(roots.begin(), roots.end(),
                          [&](int32_t root) { return plan_.storages[root].kept; });
    std::set<std::tuple<int64_t, int64_t, int64_t>> live;  // end, offset, bytes
    for (int32_t root : roots) {
      Storage& storage = plan_.storages[root];
      while (!live.empty() && std::get<0>(*live.begin()) < life(root).begin) {
        gaps.give(std::get<1>(*live.begin()), std::get<2>(*live.begin()));
        live.erase(live.begin());
      }
      const int64_t bytes = aligned(storage.bytes());
      storage.offset = gaps.take(bytes);
      live.emplace(life(root).end, storage.offset, bytes);
    }
    for (int32_t storage : order_) {
      plan_.storages[storage].offset = plan_.storages[root_of(storage)].offset;
    }
    return gaps.end();
  }

  Plan& plan_;
  Table<StorageId, Life> lives_;
  Table<StorageId, StorageId> home_;  // the storage whose memory it reuses, or -1
  std::vector<int32_t> order_;
  std::set<int32_t> taken_;
  std::vector<const Node*> reusing_;
  std::vector<Region> regions_;
  int64_t position_ = 0;
};

}  // namespace

void plan_arena(Plan& plan) {
  for (size_t i = 0; i < plan.bodies.size(); ++i) {
    plan.arena_bytes[i] = ArenaPlanner(plan).run(plan.bodies[i]);
  }
}

}  // namespace poptorch::emulator
