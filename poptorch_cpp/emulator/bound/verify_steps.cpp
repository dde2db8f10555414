#include "emulator/bound/text.hpp"
#include "emulator/bound/verify.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {
namespace {

using StepKind = Step::Kind;

class StepVerifier {
 public:
  StepVerifier(const Code& code, StepPlace place) : code_(code), place_(place) {}

  void run() const {
    const Step& step = ipu().steps[place_.step];
    if (step.region >= static_cast<int32_t>(code_.regions.size())) {
      refuse_at(place_, "is in region ", step.region, ", which does not exist.");
    }
    check_arguments(place_.step);
    const auto arguments = ipu().arguments(place_.step);
    const program::Program& program = *code_.program;
    switch (step.kind) {
      case StepKind::kCopy:
        expect_bytes(arguments[0], step.bytes);
        break;
      case StepKind::kSend:
      case StepKind::kReceive:
        expect_index(step, code_.channel_bytes.size());
        expect_bytes(arguments[0], code_.channel_bytes[index(step)]);
        break;
      case StepKind::kStreamIn:
      case StepKind::kStreamOut:
        expect_index(step, program.streams.size());
        expect_type(arguments[0], program.streams[index(step)].host.type);
        break;
      case StepKind::kLoad:
      case StepKind::kStore:
        expect_index(step, program.remote_buffers.size());
        expect_type(arguments[0], program.remote_buffers[index(step)].type);
        break;
      case StepKind::kStash:
      case StepKind::kRestore:
        expect_index(step, program.stashes.size());
        expect_type(arguments[0], program.stashes[index(step)].type);
        if (program.stashes[index(step)].ipu != static_cast<int>(place_.ipu)) {
          refuse_at(place_, "uses stash ", step.index, " of another IPU.");
        }
        break;
      case StepKind::kBegin:
      case StepKind::kCollective:
        expect_index(step, code_.collectives.size());
        expect_bytes(arguments[0], code_.collectives[step.index].operand_bytes());
        break;
      default:
        break;
    }
  }

 private:
  const IpuCode& ipu() const { return code_.ipus[place_.ipu]; }

  static size_t index(const Step& step) { return static_cast<size_t>(step.index); }
  const ir::Type& type(ValueId id) const { return code_.value(id).type; }

  void expect_index(const Step& step, size_t size) const {
    if (!index_ok(step.index, size)) {
      refuse_at(place_, "names ", row_of(step.kind).index, " ", step.index, " of ", size, ".");
    }
  }

  void expect_type(ValueId id, const ir::Type& expected) const {
    if (!(type(id) == expected)) {
      refuse_at(place_, "moves %", code_.value(id).name, ", ", type(id), ", where ", expected,
                " is declared.");
    }
  }

  void expect_bytes(ValueId id, int64_t bytes) const {
    if (type(id).bytes() != bytes) {
      refuse_at(place_, "moves ", bytes, " bytes of %", code_.value(id).name, ", which has ",
                type(id).bytes(), ".");
    }
  }

  // Checks that a step has the arguments of its kind, on its IPU, and the bytes that they have.
  void check_arguments(size_t at) const {
    const auto& steps = ipu().steps;
    const Step& step = steps[at];
    const size_t after = at + 1 < steps.size() ? steps[at + 1].buffers : ipu().table.size();
    const bool kernel = step.kind == StepKind::kKernel;
    if (step.buffers > after || after > ipu().table.size() ||
        (kernel && (step.workspace + size_t{1} != after || step.workspace < step.buffers))) {
      refuse_at(place_, "has no arguments in the table.");
    }
    for (size_t entry = step.buffers; entry < after; ++entry) {
      const ValueId id = ipu().table[entry];
      if (id == kNoValue && kernel) continue;
      if (!index_ok(id, code_.values.size()))
        refuse_at(place_, "has an argument that does not exist.");
      if (!kernel && code_.value(id).is_strided()) {
        refuse_at(place_, "uses %", code_.value(id).name,
                  ", which this step cannot read by its strides.");
      }
      const Storage& storage = code_.storage_of(id);
      if (storage.held) {
        refuse_at(place_, "uses %", code_.value(id).name, ", which is held by another kernel.");
      }
      if (storage.base == Base::kArena && storage.ipu != static_cast<int>(place_.ipu)) {
        refuse_at(place_, "uses %", code_.value(id).name, " of IPU ", storage.ipu, ".");
      }
      if (storage.base != Base::kArena) continue;
      if (storage.offset + storage.bytes() > ipu().arena_bytes) {
        refuse_at(place_, "uses %", code_.value(id).name, " beyond the ", ipu().arena_bytes,
                  " bytes of the arena.");
      }
    }
    if (kernel) return;
    const size_t expected = argument_count(step);
    if (after - step.buffers != expected) {
      refuse_at(place_, "has ", after - step.buffers, " arguments, not ", expected, ".");
    }
    if (const int64_t bytes = moved_bytes(code_, ipu(), at); step.bytes != bytes) {
      refuse_at(place_, "moves ", step.bytes, " bytes, not ", bytes, ".");
    }
  }

  static size_t argument_count(const Step& step) {
    switch (step.kind) {
      case StepKind::kCopy:
      case StepKind::kBegin:
      case StepKind::kCollective:
        return 2;
      case StepKind::kLoad:
      case StepKind::kStore:
        return step.has_row ? 2 : 1;
      case StepKind::kSync:
      case StepKind::kLoopBegin:
      case StepKind::kLoopEnd:
      case StepKind::kJump:
      case StepKind::kEnd:
        return 0;
      default:
        return 1;
    }
  }

  const Code& code_;
  StepPlace place_;
};

}  // namespace

void verify_step(const Code& code, StepPlace place) { StepVerifier(code, place).run(); }

}  // namespace poptorch::emulator
