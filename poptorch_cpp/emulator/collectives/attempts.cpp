#include "emulator/collectives/attempts.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/host/clock.hpp"
#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {

namespace {

std::function<double()> wait_clock = now;

}  // namespace

double wait_time() { return wait_clock(); }

void set_wait_clock(std::function<double()> clock) {
  wait_clock = clock ? std::move(clock) : std::function<double()>(now);
}

Attempts::Attempts(const Share& share, const Tag& about)
    : share_(share), about_(about), peers_(static_cast<size_t>(share.instances)) {}

void Attempts::begin(const Attempt& next) {
  succeeded_.reset();
  if (!std::exchange(has_aborted_, false)) succeeded_ = current_;
  current_ = next;
  send_owed();
}

void Attempts::abort(std::string_view why, double until) {
  has_aborted_ = true;
  own_ = {.attempt = current_};
  std::memcpy(own_.reason.data(), why.data(), std::min(why.size(), own_.reason.size() - 1));
  for (int other = 0; other < share_.instances; ++other) {
    peers_[other].is_owed = other != share_.instance;
  }
  Fabric& fabric = *share_.fabric;
  for (int64_t round = 0;; ++round) {
    const uint32_t seen = fabric.signal();
    if (send_owed() || wait_time() > until) return;
    fabric.nap(round, seen);
  }
}

// Returns whether all others have the last notice. Instances that have ended do not need it.
bool Attempts::send_owed() {
  const auto* bytes = reinterpret_cast<const std::byte*>(&own_);
  bool has_sent_all = true;
  for (int other = 0; other < share_.instances; ++other) {
    bool& is_owed = peers_[other].is_owed;
    if (!is_owed) continue;
    is_owed = share_.fabric->end_of(other).empty() &&
              !share_.fabric->send(other, about_, bytes, sizeof own_);
    has_sent_all &= !is_owed;
  }
  return has_sent_all;
}

bool Attempts::is_late(const Attempt& attempt) const {
  return attempt < current_ && attempt != succeeded_;
}

std::optional<Attempts::Abort> Attempts::next_abort() {
  send_owed();
  for (int other = 0; other < share_.instances; ++other) {
    if (other == share_.instance) continue;
    std::deque<Notice>& heard = peers_[other].heard;
    Notice notice;
    auto* const bytes = reinterpret_cast<std::byte*>(&notice);
    while (share_.fabric->receive(other, about_, bytes, sizeof notice)) heard.push_back(notice);
    while (!heard.empty() && is_late(heard.front().attempt)) heard.pop_front();
    if (heard.empty() || heard.front().attempt > current_) continue;
    heard.front().reason.back() = '\0';
    Abort abort{other, heard.front().reason.data()};
    heard.pop_front();
    return abort;
  }
  return std::nullopt;
}

bool Attempts::is_past(int other) const {
  const std::deque<Notice>& heard = peers_[other].heard;
  return !heard.empty() && heard.back().attempt > current_;
}

}  // namespace poptorch::emulator
