// repeat_casts repeats a chain's cast from halves to f32 in the chains that read its result: what
// stochastic rounding computes in f32 is then stored once, as halves.
#include <algorithm>

#include "emulator/bind/plan.hpp"
#include "support/flat_map.hpp"

namespace poptorch::emulator {
namespace {

class CastRepeater {
 public:
  CastRepeater(Plan& plan, std::vector<Node>& block) : plan_(plan), block_(block) {}

  void run() {
    for (size_t i = 0; i < block_.size(); ++i) {
      Node& node = block_[i];
      for_each_block(node, [&](std::vector<Node>& inner) { CastRepeater(plan_, inner).run(); });
      const auto* chain_node = as<ChainNode>(node);
      if (!chain_node) continue;
      for (ValueId id : chain_node->chain.inputs) {
        std::vector<size_t>& nodes = readers_[plan_.value(id).storage];
        if (nodes.empty() || nodes.back() != i) nodes.push_back(i);
      }
    }
    for (size_t i = 0; i < block_.size(); ++i) {
      if (auto* chain_node = as<ChainNode>(block_[i])) run(i, chain_node->chain);
    }
    std::erase_if(block_, [](const Node& node) {
      const auto* chain_node = as<ChainNode>(node);
      return chain_node && chain_node->chain.ops.empty();
    });
  }

 private:
  void run(size_t at, Chain& chain) {
    const std::vector<ValueId> outputs = chain.outputs;
    for (ValueId wide : outputs) {
      const auto cast = std::ranges::find_if(chain.ops, [&](const ChainOp& op) {
        return op.def->role == ir::Role::kCast && plan_.same_memory(op.results[0], wide);
      });
      if (cast != chain.ops.end() && is_repeatable(at, *cast)) repeat(chain, cast);
    }
  }

  bool is_in_arena(ValueId id) const {
    const Storage& storage = plan_.storage_of(id);
    return storage.base == Base::kArena && storage.writers == 1 && !storage.meets;
  }

  // Returns whether only later chains of this block read the floats, with the cast's type.
  bool is_repeatable(size_t at, const ChainOp& cast) const {
    const Chain& chain = chain_at(at);
    const ValueId half = cast.inputs[0], wide = cast.results[0];
    const ir::Type &from = plan_.value(half).type, &to = plan_.value(wide).type;
    if (!ir::is_half(from.dtype) || to.dtype != ir::DType::kF32 || from.shape != to.shape) {
      return false;
    }
    if (!is_in_arena(half) || !is_in_arena(wide) || plan_.value(half).is_strided()) return false;
    int64_t reads = reads_of(chain, wide);
    const auto* readers = readers_.find(plan_.value(wide).storage);
    if (!readers) return false;
    for (size_t reader : readers->second) {
      const Chain& other = chain_at(reader);
      const int64_t own = reads_of(other, wide);
      if (own == 0 || reader < at || !run_alike(cast, other.ops.front())) return false;
      reads += own;
    }
    return reads == plan_.storage_of(wide).readers;
  }

  // A chain runs with its first op's micro-batch, as a part of that op's pass.
  static bool run_alike(const ChainOp& a, const ChainOp& b) {
    return a.instruction->micro_batch_offset == b.instruction->micro_batch_offset &&
           a.instruction->pass == b.instruction->pass;
  }

  const Chain& chain_at(size_t index) const { return as<ChainNode>(block_[index])->chain; }

  // Returns how often the ops of a chain read a value; 0 if one reads it in another form.
  int64_t reads_of(const Chain& chain, ValueId value) const {
    int64_t reads = 0;
    for (const ChainOp& op : chain.ops) {
      for (ValueId id : op.inputs) {
        if (id == kNoValue || plan_.value(id).storage != plan_.value(value).storage) continue;
        if (!plan_.same_memory(id, value)) return 0;
        ++reads;
      }
    }
    return reads;
  }

  std::vector<ChainOp>::iterator first_reader(Chain& chain, ValueId value) const {
    return std::ranges::find_if(chain.ops, [&](const ChainOp& op) {
      return std::ranges::any_of(
          op.inputs, [&](ValueId id) { return id != kNoValue && plan_.same_memory(id, value); });
    });
  }

  bool holds(const std::vector<ValueId>& values, ValueId value) const {
    return std::ranges::any_of(values, [&](ValueId id) { return plan_.same_memory(id, value); });
  }
  void remove(std::vector<ValueId>& values, ValueId value) const {
    std::erase_if(values, [&](ValueId id) { return plan_.same_memory(id, value); });
  }

  void repeat(Chain& chain, std::vector<ChainOp>::iterator at) {
    const ChainOp cast = *at;
    const ValueId half = cast.inputs[0], wide = cast.results[0];
    for (size_t reader : readers_.at(plan_.value(wide).storage)) {
      Chain& other = as<ChainNode>(block_[reader])->chain;
      remove(other.inputs, wide);
      if (!holds(other.inputs, half)) other.inputs.push_back(half);
      other.ops.insert(first_reader(other, wide), cast);
      ++plan_.storage_of(half).readers;
    }
    remove(chain.outputs, wide);
    if (!holds(chain.inputs, half) && !holds(chain.outputs, half)) chain.outputs.push_back(half);
    if (reads_of(chain, wide) > 0) return;
    --plan_.storage_of(half).readers;
    chain.ops.erase(at);
  }

  Plan& plan_;
  std::vector<Node>& block_;
  support::FlatMap<int32_t, std::vector<size_t>> readers_;  // chains, by storage
};

}  // namespace

void repeat_casts(Plan& plan) {
  if (!plan.options.fuse || plan.options.reference_only) return;
  for (auto& body : plan.bodies) CastRepeater(plan, body).run();
}

}  // namespace poptorch::emulator
