// attach_epilogues moves a chain into the kernel that makes one of its inputs. The input is then
// still in cache, or is never stored at all: a weight's gradient goes directly into its update.
//
// The two may be far apart (updates come after the whole backward pass). The pair runs at the first
// place where the chain's inputs are available and no node still needs what it overwrites. Tiny
// chains (step counters) are hoisted first, because they would delay all others.
#include <algorithm>

#include "emulator/bind/plan.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "support/flat_map.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kTinyElements = 64;

// The place where a node runs: its index in the list or, if it moved, after index `major` as the
// `minor`-th node that moved.
struct Key {
  int64_t major = -1, minor = 0;
  auto operator<=>(const Key&) const = default;
};
constexpr Key kStart{-1, 0};
constexpr Key kEnd{INT64_MAX, 0};

struct Accesses {
  std::vector<size_t> readers, writers;  // nodes
};

class EpilogueAttacher {
 public:
  EpilogueAttacher(Plan& plan, std::vector<Node>& block) : plan_(plan), block_(block) {}

  void run() {
    keys_.resize(block_.size());
    same_.resize(block_.size());
    gone_.resize(block_.size(), false);
    for (size_t i = 0; i < block_.size(); ++i) {
      keys_[i] = {static_cast<int64_t>(i), 0};
      same_[i] = i;
      for_each_access(plan_, block_[i], [&](int32_t storage, bool write) {
        Accesses& accesses = accesses_[storage];
        (write ? accesses.writers : accesses.readers).push_back(i);
      });
    }
    for (size_t i = 0; i < block_.size(); ++i) {
      for_each_block(block_[i],
                     [&](std::vector<Node>& inner) { EpilogueAttacher(plan_, inner).run(); });
      const auto* node = as<ChainNode>(block_[i]);
      if (node && is_tiny(node->chain)) hoist(i);
    }
    for (size_t i = 0; i < block_.size(); ++i) {
      if (auto* node = as<ChainNode>(block_[i])) attach(i, node->chain);
    }
    reorder();
  }

 private:
  static bool is_tiny(const Chain& chain) {
    return ir::element_count(chain.space) <= kTinyElements;
  }

  Key key(size_t node) const { return keys_[same_[node]]; }

  // Calls see(key) for every node that must keep its order relative to one of these accesses.
  template <typename See>
  void for_each_conflict(const Node& node, size_t self, size_t other, See see) const {
    for_each_access(plan_, node, [&](int32_t storage, bool write) {
      const Accesses& accesses = accesses_.at(storage);
      auto visit = [&](const std::vector<size_t>& nodes) {
        for (size_t index : nodes) {
          if (same_[index] != self && same_[index] != other) see(key(index));
        }
      };
      visit(accesses.writers);
      if (write) visit(accesses.readers);
    });
  }

  Key last_conflict_before(const Node& node, size_t self, size_t other, Key low, Key high) const {
    Key last = low;
    for_each_conflict(node, self, other, [&](Key k) {
      if (k > last && k < high) last = k;
    });
    return last;
  }

  Key first_conflict_after(const Node& node, size_t self, size_t other, Key low) const {
    Key first = kEnd;
    for_each_conflict(node, self, other, [&](Key k) {
      if (k > low && k < first) first = k;
    });
    return first;
  }

  void hoist(size_t index) {
    const Key last = last_conflict_before(block_[index], index, index, kStart, keys_[index]);
    keys_[index] = {last.major, ++moved_};
  }

  bool can_produce(size_t index, ValueId input, const Chain& chain) const {
    const auto* node = as<OpNode>(block_[index]);
    if (!node || node->epilogue || !node->def->writes.empty()) return false;
    if (node->outputs.empty() || node->outputs[0] == kNoValue) return false;
    const Value& made = plan_.value(node->outputs[0]);
    if (!plan_.same_memory(node->outputs[0], input)) return false;
    const auto seen = std::count_if(chain.inputs.begin(), chain.inputs.end(), [&](ValueId id) {
      return plan_.value(id).storage == made.storage;
    });
    if (seen != 1) return false;
    const KernelRow* row = all_kernels().find(node->def->name);
    return row && row->takes_epilogue;
  }

  void attach(size_t index, Chain& chain) {
    std::vector<std::pair<Key, size_t>> producers;
    for (ValueId input : chain.inputs) {
      const Storage& storage = plan_.storage_of(input);
      if (storage.base != Base::kArena || storage.writers != 1) continue;
      if (!plan_.fills(input, chain.space)) continue;
      for (size_t writer : accesses_.at(plan_.value(input).storage).writers) {
        if (can_produce(writer, input, chain)) producers.emplace_back(key(writer), writer);
      }
    }
    std::sort(producers.rbegin(), producers.rend());
    for (const auto& [unused, producer] : producers) {
      if (try_pair(producer, index, chain)) return;
    }
  }

  bool try_pair(size_t producer, size_t index, Chain& chain) {
    const Key from = keys_[producer];
    const Key to = keys_[index];
    if (to < from) return false;
    const Key last = last_conflict_before(block_[index], index, producer, from, to);
    if (last != from) {
      // The place is never after the chain's own: a reader of its results may follow directly.
      const Key place = std::min(Key{last.major, moved_ + 1}, to);
      if (first_conflict_after(block_[producer], producer, index, from) < place) return false;
      ++moved_;
      keys_[producer] = place;
    }
    OpNode& home = *as<OpNode>(block_[producer]);
    const int32_t own = plan_.value(home.outputs[0]).storage;
    auto& inputs = chain.inputs;
    auto at = std::find_if(inputs.begin(), inputs.end(),
                           [&](ValueId id) { return plan_.value(id).storage == own; });
    inputs.erase(at);
    // Input 0 is the kernel's own result, which is not read from memory.
    inputs.insert(inputs.begin(), kNoValue);
    home.epilogue = std::make_unique<Chain>(std::move(chain));
    same_[index] = producer;
    gone_[index] = true;
    return true;
  }

  void reorder() {
    std::vector<size_t> order;
    for (size_t i = 0; i < block_.size(); ++i) {
      if (!gone_[i]) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys_[a] < keys_[b]; });
    std::vector<Node> result;
    result.reserve(order.size());
    for (size_t index : order) result.push_back(std::move(block_[index]));
    block_ = std::move(result);
  }

  Plan& plan_;
  std::vector<Node>& block_;
  std::vector<Key> keys_;
  std::vector<size_t> same_;  // the node that a node became a part of
  std::vector<bool> gone_;
  support::FlatMap<int32_t, Accesses> accesses_;  // by storage
  int64_t moved_ = 0;
};

}  // namespace

void attach_epilogues(Plan& plan) {
  if (!plan.options.fuse || plan.options.reference_only) return;
  for (auto& body : plan.bodies) EpilogueAttacher(plan, body).run();
}

}  // namespace poptorch::emulator
