// One walk finds the lifetimes; a best-fit free list then serves tensors in order of birth.
#include "lowering/memory_plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ir/op_def.hpp"
#include "support/table.hpp"
#include "support/watch.hpp"

namespace poptorch::lowering {
namespace {

using program::Base;
using program::Instruction;
using program::kNoTensor;
using program::Program;
using program::Tensor;
using program::TensorId;

int64_t aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// Keeps the free memory of an arena that grows at its end.
class FreeList {
 public:
  int64_t take(int64_t bytes) {
    auto fit = by_size_.lower_bound({bytes, -1});
    if (fit != by_size_.end()) {
      auto [size, offset] = *fit;
      remove(offset, size);
      if (size > bytes) add(offset + bytes, size - bytes);
      return offset;
    }
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      auto [last, size] = *by_offset_.rbegin();
      if (last + size == end_) {
        offset = last;
        remove(last, size);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  void give_back(int64_t offset, int64_t bytes) {
    auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      auto [before, size] = *std::prev(after);
      if (before + size == offset) {
        remove(before, size);
        offset = before;
        bytes += size;
      }
    }
    after = by_offset_.lower_bound(offset);
    if (after != by_offset_.end() && after->first == offset + bytes) {
      const int64_t size = after->second;
      remove(after->first, size);
      bytes += size;
    }
    add(offset, bytes);
  }

 private:
  void add(int64_t offset, int64_t size) {
    by_offset_[offset] = size;
    by_size_.insert({size, offset});
  }
  void remove(int64_t offset, int64_t size) {
    by_size_.erase({size, offset});
    by_offset_.erase(offset);
  }

  int64_t end_ = 0;
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
};

struct Life {
  int64_t begin = -1, end = -1;
  int writes = 0;
};

class Planner {
 public:
  Planner(Program& program, const ir::Registry& registry)
      : program_(program),
        registry_(registry),
        lives_(program.tensors.size()),
        root_(program.tensors.size()) {
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<TensorId>(i);
  }

  void run() {
    for (auto& ipu : program_.ipus) {
      // Positions continue from IPU to IPU: a tensor belongs to one of them.
      walk(ipu.body, false);
    }
    position_ = 0;
    for (auto& ipu : program_.ipus) {
      share_block(ipu.body);
      ++ipu_;
    }
    allocate();
  }

 private:
  Tensor& tensor(TensorId id) { return program_.tensors[id]; }
  Life& life(TensorId id) { return lives_[id]; }
  bool in_arena(TensorId id) { return id != kNoTensor && tensor(id).base == Base::kArena; }

  TensorId root(TensorId id) {
    while (root_[id] != id) {
      TensorId& parent = root_[id];
      parent = root_[parent];
      id = parent;
    }
    return id;
  }

  void touch(TensorId id, bool write) {
    if (!in_arena(id)) return;
    Life& one = life(id);
    if (one.begin < 0) one.begin = position_;
    one.end = position_;
    one.writes += write;
    if (!crossing_.empty()) crossing_.back().push_back(id);
  }

  void walk(const std::vector<Instruction>& block, bool loop) {
    const int64_t begin = position_;
    if (loop) crossing_.emplace_back();
    for (const Instruction& instruction : block) {
      support::check_interrupt();
      ++position_;
      for (TensorId id : instruction.inputs) touch(id, false);
      for (TensorId id : instruction.outputs) touch(id, true);
      if (instruction.kind == Instruction::Kind::kCompute) {
        for (int index : registry_.get(instruction.op.text()).writes) {
          const auto operand = static_cast<size_t>(index);
          if (operand < instruction.inputs.size()) touch(instruction.inputs[operand], true);
        }
      }
      for (const auto& inner : instruction.blocks) {
        walk(inner, instruction.kind == Instruction::Kind::kLoop);
      }
    }
    if (!loop) return;
    ++position_;
    std::vector<TensorId> used = std::move(crossing_.back());
    crossing_.pop_back();
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (TensorId id : used) {
      if (life(id).begin > begin) continue;
      life(id).end = position_;
      if (!crossing_.empty()) crossing_.back().push_back(id);
    }
  }

  // Counts the same positions as walk().
  void share_block(std::vector<Instruction>& block) {
    for (Instruction& instruction : block) {
      ++position_;
      share(instruction);
      if (instruction.temporary.bytes) temporaries_.push_back({position_, ipu_, &instruction});
      for (auto& inner : instruction.blocks) {
        share_block(inner);
        if (instruction.kind == Instruction::Kind::kLoop) ++position_;
      }
    }
  }

  void join(TensorId operand, TensorId result) {
    const TensorId from = root(operand), to = root(result);
    if (from == to) return;
    Life& group = life(from);
    group.begin = std::min(group.begin, life(to).begin);
    group.end = std::max(group.end, life(to).end);
    root_[to] = from;
  }

  void share(Instruction& instruction) {
    if (instruction.kind != Instruction::Kind::kCompute) return;
    for (size_t i = 0; i < instruction.in_place.size(); ++i) {
      const int operand = instruction.in_place[i];
      if (operand < 0) continue;
      const TensorId from = instruction.inputs[operand];
      if (in_arena(from)) join(from, instruction.outputs[i]);
    }
    if (instruction.outputs.size() != 1 || !in_arena(instruction.outputs[0])) return;
    if (!instruction.in_place.empty() && instruction.in_place[0] >= 0) return;
    const bool view = instruction.view;
    if (!view && !registry_.get(instruction.op.text()).elementwise) return;
    const TensorId result = instruction.outputs[0];
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      const TensorId operand = instruction.inputs[i];
      if (!in_arena(operand) || !shareable(operand, result, view)) continue;
      instruction.in_place.assign(1, static_cast<int>(i));
      if (view) instruction.cycles = instruction.temporary.bytes = 0;
      join(operand, result);
      return;
    }
  }

  // Returns whether `result` may take the operand's memory. Carried values and results of
  // conditionals are written more than once, so they do not share theirs.
  bool shareable(TensorId operand, TensorId result, bool view) {
    if (life(operand).writes != 1 || life(result).writes != 1) return false;
    const ir::Type &from = tensor(operand).type, &to = tensor(result).type;
    if (view) return from.bytes() == to.bytes();
    return from.shape == to.shape && ir::size_of(from.dtype) == ir::size_of(to.dtype) &&
           life(root(operand)).end == position_;
  }

  // Something that takes memory of an arena from `begin` to `end`.
  struct Block {
    int64_t begin, end, bytes;
    int ipu;
    int64_t* offset;
  };

  // Returns the groups of tensors in place of each other, and the temporary data after those that
  // are born with it: they stay longer.
  std::vector<Block> blocks() {
    const size_t count = program_.tensors.size();
    std::vector<int64_t> bytes(count, 0);
    for (size_t i = 0; i < count; ++i) {
      const auto id = static_cast<TensorId>(i);
      if (!in_arena(id) || lives_[i].begin < 0) continue;
      bytes[root(id)] = std::max(bytes[root(id)], aligned(tensor(id).type.bytes()));
    }
    std::vector<Block> all;
    for (size_t i = 0; i < count; ++i) {
      if (bytes[i] == 0) continue;
      Tensor& one = program_.tensors[i];
      all.push_back({lives_[i].begin, lives_[i].end, bytes[i], one.ipu, &one.offset});
    }
    for (const auto& [position, ipu, instruction] : temporaries_) {
      program::Temporary& one = instruction->temporary;
      all.push_back({position, position, aligned(one.bytes), ipu, &one.offset});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Block& a, const Block& b) { return a.begin < b.begin; });
    return all;
  }

  void allocate() {
    const std::vector<Block> births = blocks();
    std::vector<const Block*> deaths;
    for (const Block& one : births) deaths.push_back(&one);
    std::stable_sort(deaths.begin(), deaths.end(),
                     [](const Block* a, const Block* b) { return a->end < b->end; });
    std::vector<FreeList> arenas(program_.ipus.size());
    size_t dead = 0;
    for (const Block& one : births) {
      support::check_interrupt();
      for (; deaths[dead]->end < one.begin; ++dead) {
        arenas[deaths[dead]->ipu].give_back(*deaths[dead]->offset, deaths[dead]->bytes);
      }
      *one.offset = arenas[one.ipu].take(one.bytes);
    }
    for (size_t i = 0; i < program_.tensors.size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      if (!in_arena(id) || lives_[i].begin < 0) continue;
      tensor(id).offset = tensor(root(id)).offset;
      extend(tensor(id).ipu, tensor(id).offset + tensor(id).type.bytes());
    }
    for (const auto& [position, ipu, instruction] : temporaries_) {
      extend(ipu, instruction->temporary.offset + instruction->temporary.bytes);
    }
  }

  void extend(int ipu, int64_t end) {
    int64_t& arena = program_.ipus[ipu].arena_bytes;
    arena = std::max(arena, end);
  }

  Program& program_;
  const ir::Registry& registry_;
  struct TemporaryData {
    int64_t position;
    int ipu;
    Instruction* instruction;
  };

  int64_t position_ = 0;
  int ipu_ = 0;
  std::vector<TemporaryData> temporaries_;
  support::Table<TensorId, Life> lives_;
  support::Table<TensorId, TensorId> root_;
  std::vector<std::vector<TensorId>> crossing_;  // per open loop: the tensors it touches
};

}  // namespace

void plan_memory(Program& program, const ir::Registry& registry) {
  Planner(program, registry).run();
}

}  // namespace poptorch::lowering
