#include "emulator/bind/keep_values.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/op_def.hpp"
#include "support/strings.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {
namespace {

using program::Base;
using program::Instruction;
using program::Program;
using program::TensorId;
using support::Table;
using Kind = Instruction::Kind;

constexpr int kUnknown = -1;

template <typename Block, typename See>
void for_each_in(Block& block, See see) {
  for (auto& instruction : block) {
    see(instruction);
    for (auto& inner : instruction.blocks) for_each_in(inner, see);
  }
}

// Value numbering: two instructions of one IPU with equal numbers give equal values for one
// micro-batch.
class ValueNumbering {
 public:
  ValueNumbering(const Program& program, const ir::Registry& registry)
      : program_(program), registry_(registry), writers_(program.tensors.size()) {
    for (const auto& ipu : program.ipus) {
      for_each_in(ipu.body, [&](const Instruction& instruction) { note_writes(instruction); });
    }
  }

  // Returns the number of every compute instruction of the IPU, in order; kUnknown if its value
  // cannot be identified.
  std::vector<int> of_ipu(int ipu) {
    const auto& body = program_.ipus[ipu].body;
    while (true) {
      numbers_.assign(program_.tensors.size(), kUnknown);
      stashes_.clear();
      std::vector<int> found;
      bool agreed = true;
      for_each_in(body, [&](const Instruction& instruction) {
        agreed = step(instruction) && agreed;
        if (instruction.kind == Kind::kCompute) {
          found.push_back(instruction.outputs.size() == 1 ? of(instruction.outputs[0]) : kUnknown);
        }
      });
      if (agreed) return found;
    }
  }

 private:
  using Key = std::pair<std::string, std::vector<int>>;

  const program::Tensor& tensor(TensorId id) const { return program_.tensors[id]; }
  const ir::OpDef* def_of(const Instruction& instruction) const {
    return instruction.kind == Kind::kCompute ? &registry_.get(instruction.op.text()) : nullptr;
  }

  void note_write(TensorId id, bool in_update) {
    if (id == program::kNoTensor) return;
    ++writers_[id];
    if (tensor(id).base == Base::kState && !in_update) changing_.insert(tensor(id).index);
  }

  void note_writes(const Instruction& instruction) {
    const bool in_update = instruction.pass == program::Pass::kUpdate;
    for (TensorId id : instruction.outputs) note_write(id, in_update);
    const ir::OpDef* def = def_of(instruction);
    if (!def) return;
    for (int operand : def->writes) {
      if (operand < static_cast<int>(instruction.inputs.size())) {
        note_write(instruction.inputs[operand], in_update);
      }
    }
  }

  int number(Key key, const ir::Attrs* attrs) {
    auto& known = known_[std::move(key)];
    for (const auto& [other, number] : known) {
      if ((!attrs && !other) || (attrs && other && *attrs == *other)) return number;
    }
    known.emplace_back(attrs, next_);
    return next_++;
  }

  int of(TensorId id) {
    if (id == program::kNoTensor) return number({"absent", {}}, nullptr);
    const program::Tensor& one = tensor(id);
    if (one.base == Base::kConstant) return number({"constant", {one.index}}, nullptr);
    if (one.base == Base::kState) {
      return changing_.count(one.index) ? kUnknown : number({"state", {one.index}}, nullptr);
    }
    return numbers_[id];
  }

  // Returns false if a stash turns out to hold different values. The numbering then starts again
  // and treats the stash as unknown.
  bool step(const Instruction& instruction) {
    if (instruction.kind == Kind::kStash) {
      const int value = of(instruction.inputs[0]);
      const auto [it, added] = stashes_.emplace(instruction.channel, value);
      if (added || it->second == value || opaque_.count(instruction.channel)) return true;
      opaque_.insert(instruction.channel);
      return false;
    }
    const bool drawn = is_drawn(instruction);
    if (instruction.outputs.size() != 1 && !drawn) return true;
    // An arena tensor that several instructions write has more than one value.
    for (size_t i = 0; i < instruction.outputs.size(); ++i) {
      const TensorId out = instruction.outputs[i];
      if (out == program::kNoTensor || writers_[out] != 1) continue;
      numbers_[out] = drawn ? drawn_result(instruction, i) : result(instruction);
    }
    return true;
  }

  bool is_drawn(const Instruction& instruction) const {
    const ir::OpDef* def = def_of(instruction);
    return def && def->random && !def->has_effect();
  }

  // A random op and its copy in a backward stage have one id, which is part of the random key.
  int drawn_result(const Instruction& instruction, size_t index) {
    Key key{support::str(instruction.op.text(), " ", instruction.op_id, " ", index), {}};
    return add_operands(key, instruction) ? number(std::move(key), &instruction.attrs) : kUnknown;
  }

  bool add_operands(Key& key, const Instruction& instruction) {
    for (TensorId id : instruction.inputs) {
      key.second.push_back(of(id));
      if (key.second.back() == kUnknown) return false;
    }
    return true;
  }

  int result(const Instruction& instruction) {
    switch (instruction.kind) {
      case Kind::kReceive:
        return number({"receive", {instruction.channel}}, nullptr);
      case Kind::kStreamIn:
        return number({"stream_in", {instruction.channel}}, nullptr);
      case Kind::kRestore: {
        const auto it = stashes_.find(instruction.channel);
        if (opaque_.count(instruction.channel) || it == stashes_.end()) return kUnknown;
        return it->second;
      }
      case Kind::kCompute:
        break;
      default:
        return kUnknown;
    }
    const ir::OpDef& def = *def_of(instruction);
    if (def.has_effect()) return kUnknown;
    Key key{instruction.op.text(), {}};
    return add_operands(key, instruction) ? number(std::move(key), &instruction.attrs) : kUnknown;
  }

  const Program& program_;
  const ir::Registry& registry_;
  Table<TensorId, int> writers_;  // by tensor: instructions that write it
  std::set<int32_t> changing_;    // states that micro-batches change
  std::set<int> opaque_;          // stashes that hold different values
  std::map<Key, std::vector<std::pair<const ir::Attrs*, int>>> known_;
  int next_ = 0;
  Table<TensorId, int> numbers_;  // by tensor
  std::map<int, int> stashes_;    // by channel
};

// A value that a forward stage computes and a later backward stage recomputes.
struct Twice {
  std::vector<size_t> first, again;  // indices of the IPU's compute instructions
  int stage = -1, later_stage = -1;
  int offset = 0, later_offset = 0;
  bool consistent = true;
  const ir::Type* type = nullptr;
};

class ProductKeeper {
 public:
  ProductKeeper(const Program& program, const ir::Registry& registry)
      : original_(program), registry_(registry), numbering_(program, registry) {}

  std::optional<Program> run() {
    for (size_t i = 0; i < original_.ipus.size(); ++i) find(static_cast<int>(i));
    if (stashes_.empty()) return std::nullopt;
    Program program = original_;
    program.stashes.insert(program.stashes.end(), stashes_.begin(), stashes_.end());
    for (size_t i = 0; i < program.ipus.size(); ++i) {
      index_ = 0;
      changes_ = &by_ipu_[i];
      rewrite(program.ipus[i].body);
      Table<TensorId, int> uses(program.tensors.size());
      for_each_in(program.ipus[i].body, [&](const Instruction& instruction) {
        for (TensorId id : instruction.inputs) {
          if (id != program::kNoTensor) ++uses[id];
        }
      });
      drop_unused(program.ipus[i].body, uses);
    }
    return program;
  }

 private:
  struct Change {
    bool store = false;  // stash after the instruction; else a restore replaces it
    int stash = -1;
  };

  void find(int ipu) {
    const std::vector<int> numbers = numbering_.of_ipu(ipu);
    std::map<int, Twice> found;
    size_t at = 0;
    for_each_in(original_.ipus[ipu].body, [&](const Instruction& step) {
      if (step.kind != Kind::kCompute) return;
      const size_t index = at++;
      // Other ops cost as much to read back as to compute.
      const bool worth_keeping = registry_.get(step.op.text()).role == ir::Role::kProduct;
      if (numbers[index] == kUnknown || !worth_keeping) return;
      note(found[numbers[index]], step, index);
    });
    auto& changes = by_ipu_.emplace_back();
    for (const auto& [number, value] : found) {
      const int depth = value.offset - value.later_offset + 1;
      if (!value.consistent || value.first.empty() || value.again.empty() || depth < 2 ||
          value.later_stage <= value.stage) {
        continue;
      }
      const int stash = static_cast<int>(original_.stashes.size() + stashes_.size());
      stashes_.push_back({*value.type, ipu, depth});
      for (size_t index : value.first) changes[index] = {true, stash};
      for (size_t index : value.again) changes[index] = {false, stash};
    }
  }

  void note(Twice& value, const Instruction& step, size_t index) {
    const bool again = step.pass == program::Pass::kBackward;
    int& stage = again ? value.later_stage : value.stage;
    int& offset = again ? value.later_offset : value.offset;
    auto& list = again ? value.again : value.first;
    const bool fits = list.empty() || (stage == step.stage && offset == step.micro_batch_offset);
    value.consistent = value.consistent && fits && step.stage >= 0;
    stage = step.stage;
    offset = step.micro_batch_offset;
    list.push_back(index);
    value.type = &original_.tensors[step.outputs[0]].type;
  }

  void rewrite(std::vector<Instruction>& block) {
    std::vector<Instruction> result;
    for (Instruction& instruction : block) {
      const bool compute = instruction.kind == Kind::kCompute;
      const auto change = compute ? changes_->find(index_++) : changes_->end();
      for (auto& inner : instruction.blocks) rewrite(inner);
      if (change == changes_->end()) {
        result.push_back(std::move(instruction));
        continue;
      }
      Instruction move{.kind = change->second.store ? Kind::kStash : Kind::kRestore};
      move.channel = change->second.stash;
      move.micro_batch_offset = instruction.micro_batch_offset;
      move.stage = instruction.stage;
      move.pass = instruction.pass;
      move.scope = instruction.scope;
      if (change->second.store) {
        move.inputs = instruction.outputs;
        result.push_back(std::move(instruction));
      } else {
        move.outputs = instruction.outputs;
      }
      result.push_back(std::move(move));
    }
    block = std::move(result);
  }

  bool is_removable(const Instruction& instruction) const {
    if (instruction.kind == Kind::kRestore) return true;
    if (instruction.kind != Kind::kCompute) return false;
    const ir::OpDef& def = registry_.get(instruction.op.text());
    return !def.has_effect();
  }

  void drop_unused(std::vector<Instruction>& block, Table<TensorId, int>& uses) const {
    std::vector<Instruction> kept;
    for (auto it = block.rbegin(); it != block.rend(); ++it) {
      for (auto& inner : it->blocks) drop_unused(inner, uses);
      const bool used = std::any_of(it->outputs.begin(), it->outputs.end(), [&](TensorId id) {
        return id != program::kNoTensor &&
               (uses[id] > 0 || original_.tensors[id].base != Base::kArena);
      });
      if (used || it->outputs.empty() || !is_removable(*it)) {
        kept.push_back(std::move(*it));
        continue;
      }
      for (TensorId id : it->inputs) {
        if (id != program::kNoTensor) --uses[id];
      }
    }
    std::reverse(kept.begin(), kept.end());
    block = std::move(kept);
  }

  const Program& original_;
  const ir::Registry& registry_;
  ValueNumbering numbering_;
  std::vector<program::Stash> stashes_;
  std::vector<std::map<size_t, Change>> by_ipu_;  // by IPU, by compute instruction
  const std::map<size_t, Change>* changes_ = nullptr;
  size_t index_ = 0;
};

}  // namespace

std::optional<Program> keep_recomputed(const Program& program, const ir::Registry& registry) {
  return ProductKeeper(program, registry).run();
}

}  // namespace poptorch::emulator
