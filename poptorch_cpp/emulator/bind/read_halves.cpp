// read_halves lets kernels that convert halves themselves read the operands of casts to f32: what
// stochastic rounding computes in f32 then reads weights and activations as they are stored.
#include <algorithm>
#include <unordered_map>

#include "emulator/bind/plan.hpp"
#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {
namespace {

class HalfReader {
 public:
  HalfReader(Plan& plan, std::vector<Node>& block) : plan_(plan), block_(block) {}

  void run() {
    for (size_t i = 0; i < block_.size(); ++i) {
      Node& node = block_[i];
      for_each_block(node, [&](std::vector<Node>& inner) { HalfReader(plan_, inner).run(); });
      auto* op = as<OpNode>(node);
      if (op && reads_halves(*op)) replace_operands(*op);
      forget_overwritten(node);
      if (!op || !is_widening(*op)) continue;
      casts_[plan_.value(op->outputs[0]).storage] = i;
      all_casts_.push_back(i);
    }
    remove_unread();
  }

 private:
  // Operands without elements leave the op to its reference kernel, which takes one type.
  bool reads_halves(const OpNode& node) const {
    const KernelRow* row = all_kernels().find(node.def->name);
    return row && row->reads_halves && std::ranges::all_of(node.inputs, [&](ValueId id) {
             return id == kNoValue || plan_.value(id).type.elements() > 0;
           });
  }

  bool is_widening(const OpNode& node) const {
    if (node.def->role != ir::Role::kCast) return false;
    const Value &from = plan_.value(node.inputs[0]), &to = plan_.value(node.outputs[0]);
    const Storage& made = plan_.storages[to.storage];
    return ir::is_half(from.type.dtype) && to.type.dtype == ir::DType::kF32 && !from.is_strided() &&
           made.base == Base::kArena && made.writers == 1 && !made.meets;
  }

  const OpNode& cast_at(size_t index) const { return *as<OpNode>(block_[index]); }

  // Forgets the casts whose operand the node writes.
  void forget_overwritten(const Node& node) {
    for_each_access(plan_, node, [&](int32_t storage, bool write) {
      if (!write) return;
      std::erase_if(casts_, [&](const auto& cast) {
        return plan_.value(cast_at(cast.second).inputs[0]).storage == storage;
      });
    });
  }

  void replace_operands(OpNode& node) {
    for (ValueId& operand : node.inputs) {
      if (operand == kNoValue || plan_.value(operand).is_strided()) continue;
      const auto cast = casts_.find(plan_.value(operand).storage);
      if (cast == casts_.end()) continue;
      --plan_.storage_of(operand).readers;
      operand = half_of(operand, cast_at(cast->second).inputs[0]);
      ++plan_.storage_of(operand).readers;
    }
  }

  // Returns the value in `from`, the operand of a cast, that the cast widens to `wide`.
  ValueId half_of(ValueId wide, ValueId from) {
    const Value& half = plan_.value(from);
    const int64_t offset = half.offset + plan_.value(wide).offset / 2;
    ir::Type type{half.type.dtype, plan_.value(wide).type.shape};
    if (type == half.type) return from;
    plan_.storage_of(from).resized = true;
    plan_.values.push_back({std::move(type), half.storage, offset, half.name});
    return static_cast<ValueId>(plan_.values.size() - 1);
  }

  void remove_unread() {
    std::vector<bool> unread(block_.size(), false);
    for (size_t index : all_casts_) {
      if (plan_.storage_of(cast_at(index).outputs[0]).readers > 0) continue;
      unread[index] = true;
      --plan_.storage_of(cast_at(index).inputs[0]).readers;
    }
    size_t index = 0;
    std::erase_if(block_, [&](const Node&) { return unread[index++]; });
  }

  Plan& plan_;
  std::vector<Node>& block_;
  // The nodes of the casts whose operand still has its value, by the storage that the cast makes.
  std::unordered_map<int32_t, size_t> casts_;  // look-up only
  std::vector<size_t> all_casts_;
};

}  // namespace

void read_halves(Plan& plan) {
  if (!plan.options.fuse || plan.options.reference_only) return;
  for (auto& body : plan.bodies) HalfReader(plan, body).run();
}

}  // namespace poptorch::emulator
