// Implements replay.hpp: one walk finds how long each written value stays, one sweep over the stays
// finds overlaps.
#include "program/replay.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::program {
namespace {

using support::InternalError;
using support::str;

// One value's stay in its tensor's memory.
struct Stay {
  TensorId id = kNoTensor;
  int64_t begin = 0, end = 0;  // positions of the write and of the last use
  int32_t owner = 0;           // union-find: stays that are one allocation
};

constexpr int32_t kNone = -1;

class Replay {
 public:
  Replay(const Program& program, int ipu)
      : program_(program), ipu_(ipu), now_(program.tensors.size(), kNone) {}

  int64_t run() {
    walk(program_.ipus[static_cast<size_t>(ipu_)].body);
    check_overwritten();
    check_overlaps();
    int64_t peak = 0;
    for (const Stay& stay : stays_) peak = std::max(peak, end_of(stay.id));
    return peak;
  }

 private:
  // What a loop does first with a tensor, and what the tensor held when the loop began.
  struct Crossing {
    bool exposed;
    int32_t entry;
  };
  struct Loop {
    int32_t first_stay;
    std::map<TensorId, Crossing> tensors = {};
  };

  const Tensor& tensor(TensorId id) const { return program_.tensors[static_cast<size_t>(id)]; }
  int64_t end_of(TensorId id) const { return tensor(id).offset + tensor(id).type.bytes(); }
  bool in_arena(TensorId id) const { return id != kNoTensor && tensor(id).base == Base::kArena; }
  Stay& stay(int32_t index) { return stays_[static_cast<size_t>(index)]; }
  int32_t& now(TensorId id) { return now_[static_cast<size_t>(id)]; }

  int32_t find(int32_t index) {
    while (stay(index).owner != index) {
      stay(index).owner = stay(stay(index).owner).owner;
      index = stay(index).owner;
    }
    return index;
  }
  void join(int32_t a, int32_t b) { stay(find(b)).owner = find(a); }

  void note_crossing(TensorId id, bool exposed) {
    if (!loops_.empty()) loops_.back().tensors.emplace(id, Crossing{exposed, now(id)});
  }

  void read(TensorId id) {
    if (!in_arena(id)) return;
    if (now(id) == kNone) {
      throw InternalError(
          str("[program] IPU ", ipu_, " reads %", tensor(id).name, " before anything writes it."));
    }
    note_crossing(id, true);
    stay(now(id)).end = position_;
  }

  // A write in a conditional block may not happen: it goes on with the stay at hand.
  void write(TensorId id) {
    if (!in_arena(id)) return;
    note_crossing(id, conditional_ > 0);
    if (now(id) == kNone || conditional_ == 0) {
      now(id) = static_cast<int32_t>(stays_.size());
      stays_.push_back({id, position_, position_, now(id)});
      if (!loops_.empty()) by_tensor_[id].push_back(now(id));
    }
    stay(now(id)).end = position_;
  }

  void walk(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      ++position_;
      for (TensorId id : instruction.inputs) read(id);
      const std::vector<int32_t> operands = stays_in_place(instruction);
      for (TensorId id : instruction.outputs) write(id);
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] != kNone && in_arena(instruction.outputs[i])) {
          join(operands[i], now(instruction.outputs[i]));
        }
      }
      const bool loop = instruction.kind == Instruction::Kind::kLoop;
      if (loop) loops_.push_back({static_cast<int32_t>(stays_.size())});
      conditional_ += !loop;
      for (const auto& inner : instruction.blocks) walk(inner);
      conditional_ -= !loop;
      if (loop) close_loop();
    }
  }

  // Per result, the stay of the operand that it overwrites.
  std::vector<int32_t> stays_in_place(const Instruction& instruction) {
    std::vector<int32_t> operands;
    for (size_t i = 0; i < instruction.in_place.size(); ++i) {
      operands.push_back(kNone);
      if (instruction.in_place[i] < 0) continue;
      const TensorId from = instruction.inputs[static_cast<size_t>(instruction.in_place[i])];
      if (!in_arena(from)) continue;
      const TensorId to = instruction.outputs[i];
      if (in_arena(to) && tensor(to).offset != tensor(from).offset) {
        throw InternalError(str("[program] %", tensor(to).name, " is in place of %",
                                tensor(from).name, " but lies at ", tensor(to).offset, ", not ",
                                tensor(from).offset, "."));
      }
      operands[i] = now(from);
      if (from != to && !instruction.view) overwritten_.emplace_back(now(from), position_);
    }
    return operands;
  }

  // What a loop reads before it writes it is needed again in the next round.
  void close_loop() {
    ++position_;
    const Loop loop = std::move(loops_.back());
    loops_.pop_back();
    for (const auto& [id, crossing] : loop.tensors) {
      if (crossing.exposed && crossing.entry != kNone) {
        stay(crossing.entry).end = stay(now(id)).end = position_;
        const auto& written = by_tensor_[id];
        for (size_t i = written.size(); i-- > 0 && written[i] >= loop.first_stay;) {
          join(crossing.entry, written[i]);
        }
      }
      if (!loops_.empty()) loops_.back().tensors.emplace(id, crossing);
    }
  }

  void check_overwritten() {
    for (const auto& [index, when] : overwritten_) {
      if (stay(index).end > when) {
        throw InternalError(str("[program] IPU ", ipu_, " needs %", tensor(stay(index).id).name,
                                " after it was overwritten in place."));
      }
    }
  }

  // Stays that are one allocation live from the first write to the last use of any.
  std::vector<Stay> allocations() {
    std::vector<Stay> groups;
    std::vector<int32_t> slot(stays_.size(), kNone);
    for (size_t i = 0; i < stays_.size(); ++i) {
      const Stay& one = stays_[i];
      if (tensor(one.id).type.bytes() == 0) continue;
      int32_t& group = slot[static_cast<size_t>(find(static_cast<int32_t>(i)))];
      if (group == kNone) {
        group = static_cast<int32_t>(groups.size());
        groups.push_back(one);
        continue;
      }
      Stay& whole = groups[static_cast<size_t>(group)];
      whole.begin = std::min(whole.begin, one.begin);
      whole.end = std::max(whole.end, one.end);
      if (end_of(one.id) > end_of(whole.id)) whole.id = one.id;
    }
    std::sort(groups.begin(), groups.end(), [](const Stay& a, const Stay& b) {
      return std::tie(a.begin, a.id) < std::tie(b.begin, b.id);
    });
    return groups;
  }

  void check_overlaps() {
    using Death = std::pair<int64_t, int64_t>;  // end of life, offset
    std::priority_queue<Death, std::vector<Death>, std::greater<>> deaths;
    std::map<int64_t, TensorId> live;  // by offset
    for (const Stay& group : allocations()) {
      for (; !deaths.empty() && deaths.top().first < group.begin; deaths.pop()) {
        live.erase(deaths.top().second);
      }
      const int64_t offset = tensor(group.id).offset;
      auto after = live.lower_bound(offset);
      if (after != live.end() && after->first < end_of(group.id)) {
        fail_overlap(group.id, after->second);
      }
      if (after != live.begin() && end_of(std::prev(after)->second) > offset) {
        fail_overlap(group.id, std::prev(after)->second);
      }
      live.emplace(offset, group.id);
      deaths.emplace(group.end, offset);
    }
  }

  [[noreturn]] void fail_overlap(TensorId a, TensorId b) const {
    throw InternalError(str("[program] %", tensor(a).name, " and %", tensor(b).name,
                            " overlap in the arena of IPU ", ipu_, " while both are live: [",
                            tensor(a).offset, ", ", end_of(a), ") and [", tensor(b).offset, ", ",
                            end_of(b), ")."));
  }

  const Program& program_;
  int ipu_;
  int64_t position_ = 0;
  int conditional_ = 0;       // open conditional blocks
  std::vector<Stay> stays_;   // in order of their writes
  std::vector<int32_t> now_;  // by tensor: its stay at this position
  std::unordered_map<TensorId, std::vector<int32_t>> by_tensor_;  // stays begun inside loops
  std::vector<Loop> loops_;
  std::vector<std::pair<int32_t, int64_t>> overwritten_;  // (stay, when)
};

}  // namespace

int64_t replay_arena(const Program& program, int ipu) { return Replay(program, ipu).run(); }

}  // namespace poptorch::program
