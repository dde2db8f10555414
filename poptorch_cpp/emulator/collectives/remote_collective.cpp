#include "emulator/collectives/remote_collective.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/collectives/chain_reduction.hpp"
#include "emulator/collectives/direct_reduction.hpp"
#include "emulator/collectives/remote_collectives.hpp"
#include "emulator/collectives/sent_gather.hpp"
#include "emulator/collectives/shared_collective.hpp"
#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {
namespace {

constexpr uint32_t kKinds = 3;  // of messages in a round

// Copies to each replica's result its own operand, or its part of it. Needs no other instance.
class LocalReduction final : public RemoteCollective {
 public:
  using RemoteCollective::RemoteCollective;

 private:
  void begin() override {
    const int64_t bytes = spec_.operand_bytes() / (has_rank_parts() ? group_.ranks() : 1);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const int64_t rank = group_.begin() + static_cast<int64_t>(i);
      std::memcpy(results_[i], operands_[i] + (has_rank_parts() ? rank * bytes : 0),
                  static_cast<size_t>(bytes));
    }
  }
  bool advance() override { return false; }
  bool is_finished() const override { return true; }
  int waits_for() const override { return -1; }
};

}  // namespace

RemoteCollective::RemoteCollective(const CollectiveSpec& spec, int number, InstanceGroup group,
                                   Peers& peers)
    : Collective(spec, group.count(group.here), nullptr, group.begin()),
      group_(std::move(group)),
      peers_(peers),
      number_(number) {}

Tag RemoteCollective::tag(uint32_t kind) const {
  Tag tag = peers_.tag(static_cast<uint32_t>(number_), group_.number, kKinds * round_ + kind);
  tag.on_one_host = group_.is_on_one_host ? 1 : 0;
  return tag;
}

bool RemoteCollective::compute() {
  begin();
  peers_.note_progress();
  advance();
  if (is_finished()) {
    ++round_;
    return true;
  }
  list_->note_begin();
  under_way_ = true;
  return false;
}

bool RemoteCollective::poll() {
  std::lock_guard lock(mutex_);
  if (!under_way_ || !advance()) return false;
  peers_.note_progress();
  if (!is_finished()) return false;
  under_way_ = false;
  ++round_;
  finish_round();
  return true;
}

int RemoteCollective::awaited() {
  std::lock_guard lock(mutex_);
  const int place = waits_for();
  return group_.instance(place >= 0 ? place : (group_.here == 0 ? 1 : 0));
}

void RemoteCollective::clear() {
  Collective::clear();
  under_way_ = false;
}

std::unique_ptr<RemoteCollective> make_remote_collective(const CollectiveSpec& spec, int number,
                                                         InstanceGroup group, Peers& peers) {
  if (spec.is_reduction() && spec.reduction == Reduction::kLocal) {
    return std::make_unique<LocalReduction>(spec, number, std::move(group), peers);
  }
  if (spec.ways[group.number] == Way::kShared) {
    return std::make_unique<SharedCollective>(spec, number, std::move(group), peers);
  }
  if (!spec.is_reduction()) {
    return std::make_unique<SentGather>(spec, number, std::move(group), peers);
  }
  if (group.ranks() == group.places()) {
    return std::make_unique<DirectReduction>(spec, number, std::move(group), peers);
  }
  return std::make_unique<ChainReduction>(spec, number, std::move(group), peers);
}

}  // namespace poptorch::emulator
