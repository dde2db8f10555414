// The verifier of code.hpp: jumps, counters, channels and collectives. The other parts are in files
// of their names.
#include "emulator/bound/verify.hpp"

#include <map>
#include <set>

namespace poptorch::emulator {
namespace {

using StepKind = Step::Kind;

// How often the ends of a channel run in one run of a replica.
struct Ends {
  std::set<size_t> senders, receivers;  // IPUs
  int64_t sent = 0, received = 0;
};

class BlockVerifier {
 public:
  explicit BlockVerifier(const Code& code)
      : code_(code), instructions_(list_instructions(*code.program)) {}

  void run() {
    for (place_.ipu = 0; place_.ipu < code_.ipus.size(); ++place_.ipu) check_ipu();
    for (const auto& [channel, ends] : channels_) {
      if (ends.senders.size() != 1 || ends.receivers.size() != 1 || ends.sent != ends.received) {
        refuse("channel ", channel, " is sent ", ends.sent, " times by ", ends.senders.size(),
               " IPUs and received ", ends.received, " times by ", ends.receivers.size(), ".");
      }
    }
  }

 private:
  const IpuCode& ipu() const { return code_.ipus[place_.ipu]; }

  void check_ipu() {
    counters_.clear();
    prepared_.clear();
    begun_.clear();
    const auto& steps = ipu().steps;
    place_.step = 0;
    if (steps.empty() || steps.back().kind != StepKind::kEnd)
      refuse_at(place_, "is not followed by 'end'.");
    check_block(0, steps.size() - 1, 1);
    if (static_cast<int>(counters_.size()) != ipu().loops) {
      refuse("IPU ", place_.ipu, " has ", ipu().loops, " loop counters, of which ",
             counters_.size(), " are used.");
    }
    if (static_cast<int>(prepared_.size()) != ipu().prepared) {
      refuse("IPU ", place_.ipu, " has ", ipu().prepared, " prepared counters, of which ",
             prepared_.size(), " are used.");
    }
    for (const auto& [collective, ended] : begun_) {
      if (!ended)
        refuse("collective ", collective, " of IPU ", place_.ipu, " begins and never ends.");
    }
  }

  // Checks the steps from `begin` up to `end`, which jumps do not leave; the block runs `times`
  // times.
  void check_block(size_t begin, size_t end, int64_t times) {
    for (size_t at = begin; at < end;) {
      place_.step = at;
      check_step(at, times);
      at = check_jump(at, end, times);
    }
  }

  // Returns the place after the step, or after the loop or branch that it begins.
  size_t check_jump(size_t at, size_t end, int64_t times) {
    const auto& steps = ipu().steps;
    const Step& step = steps[at];
    const auto target = static_cast<size_t>(step.target);
    switch (step.kind) {
      case StepKind::kLoopBegin: {
        if (step.target <= step_number(at) || target > end) fail_jump(at);
        const Step& last = steps[target - 1];
        if (last.kind != StepKind::kLoopEnd || last.index != step.index ||
            last.target != step_number(at) + 1 || last.count != step.count ||
            last.is_repeat != step.is_repeat || target - 1 == at) {
          refuse_at(place_, "jumps to ", target, ", which does not follow the end of this loop.");
        }
        if (step.count < 0) refuse_at(place_, "runs ", step.count, " rounds.");
        if (!index_ok(step.index, static_cast<size_t>(ipu().loops)) ||
            !counters_.insert(step.index).second) {
          refuse_at(place_, "uses loop counter ", step.index, " of ", ipu().loops,
                    ", which does not exist or is in use.");
        }
        check_block(at + 1, target - 1, times * step.count);
        return target;
      }
      case StepKind::kBranch: {
        if (step.target <= step_number(at) + 1 || target > end) fail_jump(at);
        const Step& jump = steps[target - 1];
        if (jump.kind != StepKind::kJump) {
          refuse_at(place_, "jumps to ", target, ", which does not follow an 'else'.");
        }
        if (jump.target < step.target || jump.target > step_number(end)) fail_jump(target - 1);
        check_block(at + 1, target - 1, times);
        check_block(target, static_cast<size_t>(jump.target), times);
        return static_cast<size_t>(jump.target);
      }
      case StepKind::kLoopEnd:
      case StepKind::kJump:
      case StepKind::kEnd:
        refuse_at(place_, "ends a block that did not begin.");
      default:
        return at + 1;
    }
  }

  static int32_t step_number(size_t at) { return static_cast<int32_t>(at); }

  [[noreturn]] void fail_jump(size_t at) {
    refuse_at({place_.ipu, at}, "jumps to ", ipu().steps[at].target, ", out of its block.");
  }

  void check_step(size_t at, int64_t times) {
    verify_step(code_, place_);
    const Step& step = ipu().steps[at];
    switch (step.kind) {
      case StepKind::kKernel:
        verify_kernel(code_, instructions_, place_);
        if (step.prepared >= 0 &&
            (step.prepared >= ipu().prepared || !prepared_.insert(step.prepared).second ||
             ipu().table[step.workspace] == kNoValue)) {
          refuse_at(place_, "prepares its workspace by counter ", step.prepared, " of ",
                    ipu().prepared, ", which does not exist, is in use or has no workspace.");
        }
        break;
      case StepKind::kSend:
      case StepKind::kReceive:
        count_transfer(step, times);
        break;
      case StepKind::kBegin:
      case StepKind::kCollective:
        check_collective(step);
        break;
      default:
        break;
    }
  }

  void count_transfer(const Step& step, int64_t times) {
    Ends& ends = channels_[step.index];
    const bool sends = step.kind == StepKind::kSend;
    (sends ? ends.senders : ends.receivers).insert(place_.ipu);
    (sends ? ends.sent : ends.received) += times;
  }

  // Checks that a collective begins once, then ends once.
  void check_collective(const Step& step) {
    const auto found = begun_.find(step.index);
    const bool begins = step.kind == StepKind::kBegin;
    if (begins ? found != begun_.end() : found == begun_.end() || found->second) {
      refuse_at(place_, begins ? "begins" : "ends", " collective ", step.index,
                begins ? ", which has begun already." : ", which is not under way.");
    }
    begun_[step.index] = !begins;
  }

  const Code& code_;
  InstructionTable instructions_;
  StepPlace place_;
  std::map<int32_t, Ends> channels_;
  std::set<int32_t> counters_, prepared_;  // of this IPU
  std::map<int32_t, bool> begun_;          // collectives of this IPU: whether they have ended
};

}  // namespace

void verify(const Code& code) {
  verify_declarations(code);
  BlockVerifier(code).run();
  const auto instructions = list_instructions(*code.program);
  for (size_t i = 0; i < code.ipus.size(); ++i) verify_memory(code, instructions, i);
}

}  // namespace poptorch::emulator
