#include "poptorch/strategies.hpp"

#include "ir/execution.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {
namespace {

// Returns a list of ids for messages.
std::string listed(const std::vector<std::string>& ids) {
  std::vector<std::string> all;
  for (const std::string& id : ids) all.push_back(support::str("'", id, "'"));
  return support::join(all, ", ");
}

}  // namespace

Stage& Stage::ipu(int ipu) {
  if (ipu < 0) {
    throw support::UserError(support::str("[partition] an IPU is a number from 0, not ", ipu,
                                          ": the Stage of ", listed(blocks_),
                                          ". Pass an IPU's number, such as 0."));
  }
  ipu_ = ipu;
  return *this;
}

Phase& Phase::ipus(const std::vector<int>& ids) {
  if (ids.size() != stages_.size()) {
    throw support::UserError(support::str("[partition] expected ", stages_.size(),
                                          " IPUs, one a stage of the phase, but got ", ids.size(),
                                          ". Pass as many as there are stages."));
  }
  for (size_t i = 0; i < ids.size(); ++i) stages_[i].ipu(ids[i]);
  return *this;
}

ExecutionStrategy::ExecutionStrategy(std::string name, std::vector<Phase> phases)
    : name_(std::move(name)), phases_(std::move(phases)) {
  Found next;
  for (const Phase& phase : phases_) {
    next.index = 0;
    for (const Stage& stage : phase.stages()) {
      for (const std::string& block : stage.blocks()) {
        if (places_.emplace(block, next).second) continue;
        throw support::UserError(support::str(
            "[partition] ", block, " associated with more than one stage. Name each block once; ",
            "what runs again later needs a block with another id."));
      }
      ++next.index;
      ++next.stage;
    }
    ++next.phase;
  }
}

bool ExecutionStrategy::is_phased() const { return name_.ends_with("phased"); }

const ExecutionStrategy::Found* ExecutionStrategy::find(const std::string& block_id) const {
  const auto it = places_.find(block_id);
  return it == places_.end() ? nullptr : &it->second;
}

const Stage& ExecutionStrategy::stage_at(const Found& found) const {
  return phases_[found.phase].stages()[found.index];
}

const Stage& ExecutionStrategy::stage(const std::string& block_id) const {
  if (const Found* found = find(block_id)) return stage_at(*found);
  throw support::UserError(support::str("[partition] unknown block: ", block_id,
                                        ". Ask for a block that the execution strategy names."));
}

ExecutionStrategy::Place ExecutionStrategy::place(const std::string& block_id,
                                                  std::optional<int> ipu_id, int count,
                                                  int first) const {
  if (auto_stage_ == AutoStage::SameAsIpu) {
    if (ipu_id) return {*ipu_id, *ipu_id};
    throw support::UserError(support::str(
        "[partition] AutoStage::SameAsIpu was selected but no IPU was specified for block '",
        block_id, "'. Pass an ipu_id, or use AutoStage::AutoIncrement."));
  }
  if (auto_stage_) return {ipu_id.value_or(first + count), first + count};
  const Found* found = find(block_id);
  if (!found) {
    std::vector<std::string> known;
    for (const auto& entry : places_) known.push_back(entry.first);
    throw support::UserError(support::str(
        "[partition] unknown block '", block_id, "': the execution strategy has ", listed(known),
        ". Add the block to one of its stages, or give it one of these ids."));
  }
  const std::optional<int> given = stage_at(*found).ipu() ? stage_at(*found).ipu() : ipu_id;
  if (!is_phased()) return {given.value_or(found->stage), first + found->stage};
  const bool serial = name_ == "serial_phased";
  const int otherwise = serial ? found->index : 2 * found->index + found->phase % 2;
  return {given.value_or(otherwise), found->stage, found->phase};
}

SerialPhasedExecution& SerialPhasedExecution::setTensorsLiveness(Liveness liveness) {
  liveness_ = liveness;
  return *this;
}

SerialPhasedExecution& SerialPhasedExecution::useSeparateBackwardPhase(bool use) {
  separate_backward_phase_ = use;
  return *this;
}

ParallelPhasedExecution& ParallelPhasedExecution::sendTensorsOffChipAfterFwd(bool off_chip) {
  liveness_ = off_chip ? Liveness::OffChipAfterFwd : Liveness::AlwaysLive;
  return *this;
}

ParallelPhasedExecution& ParallelPhasedExecution::useSeparateBackwardPhase(bool use) {
  separate_backward_phase_ = use;
  return *this;
}

}  // namespace poptorch
