// The pipeline's schedule: stages that run skewed, and where values wait between them.
//
// Cycles count from 0 in each round of N micro-batches. In cycle c, stage s works on micro-batch
// c - s, while that is one of the N. An IPU that has several stages runs the later ones first in a
// cycle.
#pragma once

#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.hpp"
#include "lowering/emitter.hpp"
#include "partition/regions.hpp"
#include "support/table.hpp"

namespace poptorch::lowering {

// Describes where and when a value is ready, and until when it is needed there.
struct Readiness {
  int ipu = 0;
  int stage = 0;
  int last_use = 0;  // the last stage that uses it; beyond `stage`, it waits in a stash
};

// Describes the values that stages of main's micro-batch work pass to each other: results of ops
// and inputs. A value that an ipu_copy sends arrives one stage later. State and constants are read
// in place: throws UnsupportedError for state that one stage writes and another uses.
class Crossings {
 public:
  Crossings() = default;  // of a program that is not pipelined
  explicit Crossings(const ir::Graph& main);

  int stages() const { return stages_; }  // 1: nothing is pipelined
  // Returns nullptr for state, constants and values of the weight update.
  const Readiness* of(const ir::Value* value) const;
  // Returns values of earlier stages on the same IPU that ops of `stage` use, in the order of use.
  const std::vector<const ir::Value*>& carried_into(int stage) const { return carried_[stage]; }

 private:
  void note_results(const ir::Op& op, const partition::Regions& regions);
  void note_uses(const ir::Op& op);
  void check_state(const ir::Graph& main) const;

  int stages_ = 1;
  std::unordered_map<const ir::Value*, Readiness> readiness_;  // look-up only
  support::Table<int, std::vector<const ir::Value*>> carried_;
  std::vector<std::unordered_set<const ir::Value*>> carried_once_;  // look-up only
};

using Block = std::vector<program::Instruction>;

// Emits one round: `bodies` are the stages' instructions by stage and IPU. Phases of the round
// (ramp-up, steady state, ramp-down) are separate loops with separate tensors. Every IPU with a
// stage meets the others at the end of each cycle, also where it has no work. Returns by how much
// each IPU's micro-batch counter runs ahead in a round: the loop around it sets it back.
std::vector<int> emit_round(Emitter& emitter, const std::vector<std::vector<Block>>& bodies,
                            int64_t micro_batches, const program::Instruction& end_of_cycle);

}  // namespace poptorch::lowering
