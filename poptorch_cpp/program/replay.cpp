// Implements replay.hpp: one walk gives every tensor its life, one sweep over lives finds overlaps.
#include "program/replay.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::program {
namespace {

using support::InternalError;
using support::str;

struct Life {
  int64_t begin = -1;  // position of the first write; -1: none
  int64_t end = -1;    // position of the last read or write
};

class Replay {
 public:
  Replay(const Program& program, int ipu)
      : program_(program),
        ipu_(ipu),
        lives_(program.tensors.size()),
        owner_(program.tensors.size()) {
    for (size_t i = 0; i < owner_.size(); ++i) owner_[i] = static_cast<TensorId>(i);
  }

  int64_t run() {
    walk(program_.ipus[static_cast<size_t>(ipu_)].body);
    check_overwritten();
    return sweep();
  }

 private:
  const Tensor& tensor(TensorId id) const { return program_.tensors[static_cast<size_t>(id)]; }
  Life& life(TensorId id) { return lives_[static_cast<size_t>(id)]; }
  bool in_arena(TensorId id) const { return id != kNoTensor && tensor(id).base == Base::kArena; }

  TensorId find(TensorId id) {
    TensorId& parent = owner_[static_cast<size_t>(id)];
    if (parent != id) parent = find(parent);
    return parent;
  }

  void read(TensorId id) {
    if (!in_arena(id)) return;
    if (life(id).begin < 0) {
      throw InternalError(
          str("[program] IPU ", ipu_, " reads %", tensor(id).name, " before anything writes it."));
    }
    touch(id);
  }

  void write(TensorId id) {
    if (!in_arena(id)) return;
    if (life(id).begin < 0) life(id).begin = position_;
    touch(id);
  }

  void touch(TensorId id) {
    life(id).end = position_;
    if (!loops_.empty()) loops_.back().touched.push_back(id);
  }

  void walk(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      ++position_;
      for (TensorId id : instruction.inputs) read(id);
      for (TensorId id : instruction.outputs) write(id);
      note_in_place(instruction);
      const bool loop = instruction.kind == Instruction::Kind::kLoop;
      if (loop) loops_.push_back({position_, {}});
      for (const auto& inner : instruction.blocks) walk(inner);
      if (loop) close_loop();
    }
  }

  void note_in_place(const Instruction& instruction) {
    for (size_t i = 0; i < instruction.in_place.size(); ++i) {
      const int operand = instruction.in_place[i];
      if (operand < 0) continue;
      const TensorId from = instruction.inputs[static_cast<size_t>(operand)];
      const TensorId to = instruction.outputs[i];
      if (!in_arena(from) || !in_arena(to)) continue;
      owner_[static_cast<size_t>(find(to))] = find(from);
      if (from != to && !is_view(instruction.op)) overwritten_.emplace_back(from, position_);
    }
  }

  // What crosses into the loop is needed again in the next round.
  void close_loop() {
    ++position_;
    Loop loop = std::move(loops_.back());
    loops_.pop_back();
    std::sort(loop.touched.begin(), loop.touched.end());
    loop.touched.erase(std::unique(loop.touched.begin(), loop.touched.end()), loop.touched.end());
    for (TensorId id : loop.touched) {
      if (life(id).begin >= loop.begin) continue;
      life(id).end = position_;
      if (!loops_.empty()) loops_.back().touched.push_back(id);
    }
  }

  void check_overwritten() {
    for (const auto& [id, when] : overwritten_) {
      if (life(id).end > when) {
        throw InternalError(str("[program] IPU ", ipu_, " needs %", tensor(id).name,
                                " after it was overwritten in place."));
      }
    }
  }

  int64_t sweep() {
    // A group of tensors in place of each other is one allocation.
    struct Allocation {
      Life life;
      int64_t offset = 0, end = 0;
      TensorId id = kNoTensor;
    };
    std::vector<Allocation> groups(lives_.size());
    int64_t peak = 0;
    for (size_t i = 0; i < lives_.size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      const Life one = lives_[i];
      if (one.begin < 0 || tensor(id).ipu != ipu_) continue;
      const int64_t end = tensor(id).offset + tensor(id).type.bytes();
      peak = std::max(peak, end);
      Allocation& group = groups[static_cast<size_t>(find(id))];
      if (group.id == kNoTensor) {
        group = {one, tensor(id).offset, end, id};
        continue;
      }
      if (tensor(id).offset != group.offset) {
        throw InternalError(str("[program] %", tensor(id).name, " is in place of %",
                                tensor(group.id).name, " but lies at ", tensor(id).offset, ", not ",
                                group.offset, "."));
      }
      group.life.begin = std::min(group.life.begin, one.begin);
      group.life.end = std::max(group.life.end, one.end);
      group.end = std::max(group.end, end);
    }
    std::erase_if(groups, [](const Allocation& g) { return g.id < 0 || g.end == g.offset; });
    std::sort(groups.begin(), groups.end(), [](const Allocation& a, const Allocation& b) {
      return std::tie(a.life.begin, a.id) < std::tie(b.life.begin, b.id);
    });

    std::map<int64_t, const Allocation*> live;  // by offset
    std::priority_queue<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>,
                        std::greater<>>
        ends;  // (end of life, offset)
    for (const Allocation& group : groups) {
      while (!ends.empty() && ends.top().first < group.life.begin) {
        live.erase(ends.top().second);
        ends.pop();
      }
      auto after = live.lower_bound(group.offset);
      const Allocation* other = nullptr;
      if (after != live.end() && after->first < group.end) other = after->second;
      if (after != live.begin() && std::prev(after)->second->end > group.offset) {
        other = std::prev(after)->second;
      }
      if (other) {
        throw InternalError(str("[program] %", tensor(group.id).name, " and %",
                                tensor(other->id).name, " overlap in the arena of IPU ", ipu_,
                                " while both are live: [", group.offset, ", ", group.end, ") and [",
                                other->offset, ", ", other->end, ")."));
      }
      live.emplace(group.offset, &group);
      ends.emplace(group.life.end, group.offset);
    }
    return peak;
  }

  struct Loop {
    int64_t begin;
    std::vector<TensorId> touched;
  };

  const Program& program_;
  int ipu_;
  int64_t position_ = 0;
  std::vector<Life> lives_;
  std::vector<TensorId> owner_;
  std::vector<Loop> loops_;
  std::vector<std::pair<TensorId, int64_t>> overwritten_;
};

}  // namespace

int64_t replay_arena(const Program& program, int ipu) { return Replay(program, ipu).run(); }

}  // namespace poptorch::program
