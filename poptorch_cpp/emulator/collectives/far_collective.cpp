#include "emulator/collectives/far_collective.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/collectives/lent_collective.hpp"
#include "emulator/collectives/sent_collective.hpp"
#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {
namespace {

constexpr uint32_t kKinds = 3;  // of messages in a round

}  // namespace

FarCollective::FarCollective(const CollectiveSpec& spec, int number, FarGroup group, Peers& peers)
    : Collective(spec, group.count(group.here), nullptr, group.begin()),
      group_(std::move(group)),
      peers_(peers),
      number_(number) {}

Tag FarCollective::tag(uint32_t kind) const {
  Tag tag = peers_.tag(static_cast<uint32_t>(number_), group_.number, kKinds * round_ + kind);
  tag.among_near = group_.is_near ? 1 : 0;
  return tag;
}

bool FarCollective::compute() {
  if (spec_.is_reduction() && spec_.reduction == Reduction::kLocal) {
    keep_own();
    return true;
  }
  begin();
  peers_.note_progress();
  advance();
  if (is_finished()) {
    ++round_;
    return true;
  }
  peers_.under_way.fetch_add(1);
  under_way_ = true;
  return false;
}

// Copies to each replica's result its own operand, or its part of it.
void FarCollective::keep_own() {
  const bool parts = has_rank_parts();
  const int64_t bytes = spec_.elements * element_bytes() / (parts ? group_.ranks() : 1);
  for (size_t i = 0; i < operands_.size(); ++i) {
    const int64_t rank = group_.begin() + static_cast<int64_t>(i);
    std::memcpy(results_[i], operands_[i] + (parts ? rank * bytes : 0), static_cast<size_t>(bytes));
  }
}

bool FarCollective::poll() {
  std::lock_guard lock(mutex_);
  if (!under_way_ || !advance()) return false;
  peers_.note_progress();
  if (!is_finished()) return false;
  under_way_ = false;
  ++round_;
  finish_round();
  return true;
}

int FarCollective::awaited() {
  std::lock_guard lock(mutex_);
  return waits_for();
}

void FarCollective::clear() {
  Collective::clear();
  under_way_ = false;
}

std::unique_ptr<FarCollective> make_far_collective(const CollectiveSpec& spec, int number,
                                                   FarGroup group, Peers& peers) {
  if (spec.ways[static_cast<size_t>(group.number)] == Way::kShared) {
    return std::make_unique<LentCollective>(spec, number, std::move(group), peers);
  }
  return std::make_unique<SentCollective>(spec, number, std::move(group), peers);
}

}  // namespace poptorch::emulator
