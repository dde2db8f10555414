// Follows which value each byte of an arena holds. Loops run twice here: a second round sees what
// the first one left.
#include <algorithm>
#include <map>

#include "emulator/bound/verify.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {
namespace {

using StepKind = Step::Kind;

constexpr int kMostRepeated = 4;  // loops in each other; inner ones run once

// The value that was written last at each byte, kNoValue where there is none.
class Contents {
 public:
  Contents() : owners_{{0, kNoValue}} {}

  void write(int64_t begin, int64_t end, ValueId value) {
    if (begin == end) return;
    const ValueId after = held_at(end);
    owners_.erase(owners_.lower_bound(begin), owners_.upper_bound(end));
    owners_[begin] = value;
    owners_[end] = after;
  }

  // Calls `see(value)` for the values within a range.
  template <typename See>
  void for_each_in(int64_t begin, int64_t end, See see) const {
    if (begin == end) return;
    for (auto it = std::prev(owners_.upper_bound(begin)); it != owners_.end() && it->first < end;
         ++it) {
      see(it->second);
    }
  }

  // Keeps what both hold, where `same(a, b)`.
  template <typename Same>
  void keep_common(const Contents& other, Same same) {
    std::map<int64_t, ValueId> common;
    for (const auto* owners : {&std::as_const(owners_), &other.owners_}) {
      for (const auto& [at, unused] : *owners) {
        const ValueId held = held_at(at);
        common[at] = same(held, other.held_at(at)) ? held : kNoValue;
      }
    }
    owners_ = std::move(common);
  }

 private:
  ValueId held_at(int64_t at) const { return std::prev(owners_.upper_bound(at))->second; }

  std::map<int64_t, ValueId> owners_;  // from each key up to the next
};

class MemoryVerifier {
 public:
  MemoryVerifier(const Code& code, const InstructionTable& instructions, size_t ipu)
      : code_(code), instructions_(instructions), ipu_(code.ipus[ipu]), place_{ipu, 0} {}

  void run() {
    for (ValueId id : ipu_.table) {
      if (is_in_arena(id) && code_.storage_of(id).kept) kept_.emplace(range(id).first, id);
    }
    follow(0, ipu_.steps.size() - 1, 0);
  }

 private:
  using Range = std::pair<int64_t, int64_t>;

  bool is_in_arena(ValueId id) const {
    return id != kNoValue && code_.storage_of(id).base == Base::kArena;
  }
  Range range(ValueId id) const {
    const int64_t begin = code_.storage_of(id).offset + code_.value(id).offset;
    return {begin, begin + code_.value(id).extent()};
  }
  bool same_storage(ValueId a, ValueId b) const {
    return a == b ||
           (a != kNoValue && b != kNoValue && code_.value(a).storage == code_.value(b).storage);
  }

  void follow(size_t begin, size_t end, int depth) {
    for (size_t at = begin; at < end;) {
      const Step& step = ipu_.steps[at];
      const auto target = static_cast<size_t>(step.target);
      place_.step = at;
      see(step);
      if (step.kind == StepKind::kLoopBegin) {
        follow(at + 1, target - 1, depth + 1);
        if (depth < kMostRepeated) follow(at + 1, target - 1, depth + 1);
        at = target;
      } else if (step.kind == StepKind::kBranch) {
        const auto after = static_cast<size_t>(ipu_.steps[target - 1].target);
        const Contents before = contents_;
        follow(at + 1, target - 1, depth);
        const Contents taken = std::exchange(contents_, before);
        follow(target, after, depth);
        contents_.keep_common(taken, [&](ValueId a, ValueId b) { return same_storage(a, b); });
        at = after;
      } else {
        ++at;
      }
    }
  }

  void see(const Step& step) {
    const auto arguments = ipu_.arguments(place_.step);
    switch (step.kind) {
      case StepKind::kKernel:
        return see_kernel(code_.kernels[step.index].spec, step);
      case StepKind::kCopy:
      case StepKind::kBegin:
        return see({arguments[0]}, {arguments[1]});
      case StepKind::kCollective:
        return see({arguments[0], arguments[1]}, {arguments[1]});
      case StepKind::kReceive:
      case StepKind::kStreamIn:
      case StepKind::kLoad:
      case StepKind::kRestore:
        return see({arguments.begin() + 1, arguments.end()}, {arguments[0]});
      default:
        return see({arguments.begin(), arguments.end()}, {});
    }
  }

  struct Accesses {
    std::vector<ValueId> reads, writes;
  };

  void add_accesses(const KernelSpec& spec, Accesses& found) const {
    auto& [reads, writes] = found;
    if (const auto* op = std::get_if<OpSpec>(&spec)) {
      const auto& from = *instructions_[op->instruction];
      const auto written = written_operands(code_.registry->get(from.op.text()), op->inputs);
      for (ValueId id : op->inputs) {
        if (std::ranges::find(written, id) == written.end()) reads.push_back(id);
      }
      writes.insert(writes.end(), op->outputs.begin(), op->outputs.end());
      writes.insert(writes.end(), written.begin(), written.end());
    } else if (const auto* reorder = std::get_if<ReorderSpec>(&spec)) {
      reads = {reorder->from};
      writes = {reorder->to};
    }
    for (const ChainSpec* chain : chains_of(spec)) {
      reads.insert(reads.end(), chain->sources.begin(), chain->sources.end());
      writes.insert(writes.end(), chain->outputs.begin(), chain->outputs.end());
    }
  }

  void see_kernel(const KernelSpec& spec, const Step& step) {
    if (const auto* rows = std::get_if<RowsSpec>(&spec)) return see_rows(*rows, step);
    Accesses found;
    add_accesses(spec, found);
    const ValueId workspace = ipu_.table[step.workspace];
    if (workspace != kNoValue) found.writes.push_back(workspace);
    see(found.reads, found.writes);
  }

  // Checks that the members can run on blocks of rows, one block after the other.
  void see_rows(const RowsSpec& rows, const Step& step) {
    Accesses outside;
    std::vector<ValueId> made;
    for (const RowsMember& member : rows.members) {
      Accesses found;
      add_accesses(as_spec(member), found);
      for (ValueId id : found.reads) {
        const bool inside =
            std::ranges::any_of(made, [&](ValueId other) { return same_storage(id, other); });
        if (!inside && id != kNoValue && code_.storage_of(id).held) {
          refuse_at(place_, "reads %", code_.value(id).name, ", which is held, before it is made.");
        }
        if (!inside) outside.reads.push_back(id);
        if (inside) check_divided(member, id, rows.rows);
      }
      for (ValueId id : found.writes) {
        check_divided(member, id, rows.rows);
        if (!code_.storage_of(id).held) outside.writes.push_back(id);
        made.push_back(id);
      }
    }
    const ValueId workspace = ipu_.table[step.workspace];
    if (workspace != kNoValue) outside.writes.push_back(workspace);
    check_apart(outside);
    see(outside.reads, outside.writes);
  }

  // Checks that a part of the rows is a part of the value's memory.
  void check_divided(const RowsMember& member, ValueId id, int64_t rows) const {
    const auto* chain = std::get_if<ChainSpec>(&member);
    const ir::Shape& space = code_.value(chain ? chain->outputs[0] : id).type.shape;
    if (code_.is_by_parts(id, space, rows)) return;
    refuse_at(place_, "divides %", code_.value(id).name, " into ", rows,
              " rows, which it does not have.");
  }

  // Checks that no value that a member writes takes the memory of another one.
  void check_apart(const Accesses& found) const {
    for (ValueId id : found.writes) {
      for (const auto* ids : {&found.reads, &found.writes}) {
        for (ValueId other : *ids) {
          if (!is_in_arena(id) || !is_in_arena(other) || same_storage(id, other)) continue;
          const Range a = range(id), b = range(other);
          if (a.first >= b.second || b.first >= a.second) continue;
          refuse_at(place_, "writes %", code_.value(id).name, " over %", code_.value(other).name,
                    ", of which it needs other rows later.");
        }
      }
    }
  }

  void see(const std::vector<ValueId>& reads, const std::vector<ValueId>& writes) {
    for (ValueId id : reads) {
      if (is_in_arena(id)) read(id);
    }
    for (ValueId id : writes) {
      if (!is_in_arena(id)) continue;
      for (ValueId other : reads) check_overlap(id, other);
      write(id);
    }
  }

  void read(ValueId id) const {
    const auto [begin, end] = range(id);
    contents_.for_each_in(begin, end, [&](ValueId held) {
      if (same_storage(held, id)) return;
      if (held == kNoValue) {
        refuse_at(place_, "reads %", code_.value(id).name, " before it is written.");
      }
      refuse_at(place_, "reads %", code_.value(id).name, ", which %", code_.value(held).name,
                " has overwritten.");
    });
  }

  // A result may take the memory of an operand, but not a part of it.
  void check_overlap(ValueId written, ValueId other) const {
    if (!is_in_arena(other) || same_storage(written, other)) return;
    const Range a = range(written), b = range(other);
    if (a.first < b.second && b.first < a.second && a != b) {
      refuse_at(place_, "writes %", code_.value(written).name, " over a part of its operand %",
                code_.value(other).name, ".");
    }
  }

  void write(ValueId id) {
    const auto [begin, end] = range(id);
    // The last of the kept ranges, which do not overlap, that begins before `end`.
    auto kept = kept_.lower_bound(end);
    if (begin < end && kept != kept_.begin()) {
      const ValueId held = (--kept)->second;
      if (!same_storage(held, id) && range(held).second > begin) {
        refuse_at(place_, "writes %", code_.value(id).name, " over %", code_.value(held).name,
                  ", which is kept.");
      }
    }
    contents_.write(begin, end, id);
  }

  const Code& code_;
  const InstructionTable& instructions_;
  const IpuCode& ipu_;
  StepPlace place_;
  Contents contents_;
  std::map<int64_t, ValueId> kept_;  // by offset
};

}  // namespace

void verify_memory(const Code& code, const InstructionTable& instructions, size_t ipu) {
  MemoryVerifier(code, instructions, ipu).run();
}

}  // namespace poptorch::emulator
