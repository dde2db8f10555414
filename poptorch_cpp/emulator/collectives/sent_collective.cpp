// Contains the parts that all kinds share, gathers and all-to-alls. Reductions are in
// sent_chain.cpp and sent_direct.cpp.
#include "emulator/collectives/sent_collective.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace poptorch::emulator {
namespace {

// Limits a zero-copy transfer, whose end is a sign of life, in units of Fabric::least_loan().
constexpr int64_t kMostLent = 64;

}  // namespace

SentCollective::SentCollective(const CollectiveSpec& spec, int number, FarGroup group, Peers& peers)
    : FarCollective(spec, number, std::move(group), peers),
      is_direct_(spec.is_reduction() && group_.ranks() == group_.places()),
      is_long_(is_direct_ && peers.share().fabric &&
               spec.elements / group_.ranks() * element_bytes() >=
                   peers.share().fabric->least_loan()),
      sends_(group_.instances.size()),
      receives_(group_.instances.size()),
      sent_(group_.instances.size()),
      received_(group_.instances.size()),
      loans_(group_.instances.size()) {
  if (!spec.is_reduction() || spec.reduction == Reduction::kLocal || !peers.share().fabric) return;
  fold_.emplace(spec.dtype, spec.reduction);
  cut_slices();
}

void SentCollective::begin() {
  tag_ = receive_tag_ = tag(0);
  folded_ = returned_ = 0;
  has_partial_ = has_result_ = false;
  for (auto& loans : loans_) loans.clear();
  if (spec_.kind == CollectiveKind::kAllGather) begin_gather();
  if (spec_.kind == CollectiveKind::kAllToAll) begin_all_to_all();
  if (is_direct_) begin_direct();
}

bool SentCollective::advance() {
  bool moved = false;
  if (!fold_) {
    moved = move_all();
    if (moved && is_finished() && spec_.kind == CollectiveKind::kAllGather) {
      const int64_t bytes = spec_.elements * element_bytes() * group_.ranks();
      for (size_t i = 1; i < results_.size(); ++i) {
        std::memcpy(results_[i], results_[0], static_cast<size_t>(bytes));
      }
    }
    return moved;
  }
  if (is_direct_) return advance_direct();
  // Both directions take turns, so that neither fills up.
  for (bool again = true; again; moved |= again) {
    again = return_next();
    again = fold_next() || again;
  }
  return moved;
}

bool SentCollective::is_finished() const {
  if (fold_ && !is_direct_) return folded_ == slices_.size() && returned_ == slices_.size();
  if (folded_ < own_.size()) return false;
  for (size_t place = 0; place < returned_to_.size(); ++place) {
    if (returned_to_[place] < own_.size()) return false;
  }
  return has_moved_all() && std::ranges::all_of(loans_, &std::deque<int64_t>::empty);
}

int64_t SentCollective::most_bytes() const {
  const Fabric& fabric = peers_.fabric();
  return group_.is_near ? fabric.most_bytes_among_near() : fabric.most_bytes();
}

bool SentCollective::has_moved_all() const {
  for (size_t place = 0; place < sends_.size(); ++place) {
    if (sent_[place] < sends_[place].size() || received_[place] < receives_[place].size()) {
      return false;
    }
  }
  return true;
}

void SentCollective::add_moves(std::vector<Move>& moves, int other, const std::byte* data,
                               int64_t bytes) const {
  const Fabric& fabric = peers_.fabric();
  const int64_t most =
      bytes >= fabric.least_loan() ? kMostLent * fabric.least_loan() : most_bytes();
  for (int64_t at = 0; at < bytes; at += most) {
    moves.push_back({other, const_cast<std::byte*>(data) + at, std::min(most, bytes - at)});
  }
}

void SentCollective::begin_gather() {
  const int64_t bytes = spec_.elements * element_bytes();
  for (size_t i = 0; i < operands_.size(); ++i) {
    std::memcpy(results_[0] + (group_.begin() + static_cast<int64_t>(i)) * bytes, operands_[i],
                static_cast<size_t>(bytes));
  }
  for (int place = 0; place < static_cast<int>(group_.instances.size()); ++place) {
    const auto index = static_cast<size_t>(place);
    sends_[index].clear();
    receives_[index].clear();
    sent_[index] = received_[index] = 0;
    if (place == group_.here) continue;
    for (const std::byte* operand : operands_) {
      add_moves(sends_[index], group_.instance(place), operand, bytes);
    }
    const int64_t first = group_.begins[index];
    for (int64_t rank = first; rank < first + group_.count(place); ++rank) {
      add_moves(receives_[index], group_.instance(place), results_[0] + rank * bytes, bytes);
    }
  }
}

void SentCollective::begin_all_to_all() {
  const int64_t row = spec_.elements * element_bytes() / group_.ranks();
  for (int place = 0; place < static_cast<int>(group_.instances.size()); ++place) {
    const auto index = static_cast<size_t>(place);
    sends_[index].clear();
    receives_[index].clear();
    sent_[index] = received_[index] = 0;
    const int64_t first = group_.begins[index];
    for (size_t i = 0; i < operands_.size(); ++i) {
      for (int64_t to = first; to < first + group_.count(place); ++to) {
        const std::byte* data = operands_[i] + to * row;
        if (place == group_.here) {
          std::memcpy(
              results_[static_cast<size_t>(to - first)] + (first + static_cast<int64_t>(i)) * row,
              data, static_cast<size_t>(row));
        } else {
          add_moves(sends_[index], group_.instance(place), data, row);
        }
      }
    }
    if (place == group_.here) continue;
    for (int64_t from = first; from < first + group_.count(place); ++from) {
      for (std::byte* result : results_) {
        add_moves(receives_[index], group_.instance(place), result + from * row, row);
      }
    }
  }
}

// Returns whether there was room. A reduction uses zero-copy transfers for all slices or none.
bool SentCollective::lend(int place, const Tag& tag, const std::byte* data, int64_t bytes) {
  Fabric& fabric = peers_.fabric();
  const int other = group_.instance(place);
  if (fold_ && !is_long_) return fabric.send(other, tag, data, bytes);
  return note_loan(place, fabric.lend(other, tag, data, bytes));
}

// Returns whether the message has arrived or is on its way.
bool SentCollective::fetch(int place, const Tag& tag, std::byte* into, int64_t bytes) {
  Fabric& fabric = peers_.fabric();
  const int other = group_.instance(place);
  if (fold_ && !is_long_) return fabric.receive(other, tag, into, bytes);
  return note_loan(place, fabric.fetch(other, tag, into, bytes));
}

bool SentCollective::note_loan(int place, int64_t loan) {
  if (loan > 0) loans_[static_cast<size_t>(place)].push_back(loan);
  return loan != Fabric::kNoRoom;
}

// Removes completed zero-copy transfers. Returns whether there were any.
bool SentCollective::settle() {
  bool settled = false;
  for (int place = 0; place < group_.places(); ++place) {
    std::deque<int64_t>& loans = loans_[static_cast<size_t>(place)];
    while (!loans.empty() && peers_.fabric().is_over(group_.instance(place), loans.front())) {
      loans.pop_front();
      settled = true;
    }
  }
  return settled;
}

bool SentCollective::move_all() {
  bool moved = settle();
  for (size_t place = 0; place < sends_.size(); ++place) {
    for (size_t& at = sent_[place]; at < sends_[place].size(); ++at, moved = true) {
      const Move& move = sends_[place][at];
      if (!lend(static_cast<int>(place), tag_, move.data, move.bytes)) break;
    }
    for (size_t& at = received_[place]; at < receives_[place].size(); ++at, moved = true) {
      const Move& move = receives_[place][at];
      if (is_direct_ && !is_long_ && peers_.fabric().is_next(move.other, tag_)) break;
      if (!fetch(static_cast<int>(place), receive_tag_, move.data, move.bytes)) break;
    }
  }
  return moved;
}

int SentCollective::waits_for() const {
  const int last = static_cast<int>(group_.instances.size()) - 1;
  if (is_direct_ && folded_ < own_.size()) {
    for (size_t place = 0; place < sends_.size(); ++place) {
      if (!can_overwrite(own_[folded_]) && sent_[place] < sends_[place].size()) {
        return group_.instance(static_cast<int>(place));
      }
    }
    return group_.instance(next_place_ == group_.here ? next_place_ + 1 : next_place_);
  }
  if (fold_ && !is_direct_) {
    if (is_last()) return group_.instance(last - 1);
    const bool from_before = !has_partial_ && folded_ < slices_.size() && group_.here > 0;
    if (from_before) return group_.instance(group_.here - 1);
    return group_.instance(has_rank_parts() && folded_ == slices_.size() ? last : group_.here + 1);
  }
  for (size_t place = 0; place < sends_.size(); ++place) {
    if (received_[place] < receives_[place].size()) return receives_[place][received_[place]].other;
  }
  for (size_t place = 0; place < sends_.size(); ++place) {
    if (sent_[place] < sends_[place].size()) return sends_[place][sent_[place]].other;
  }
  for (size_t place = 0; place < returned_to_.size(); ++place) {
    if (returned_to_[place] < own_.size()) return group_.instance(static_cast<int>(place));
  }
  for (int place = 0; place < group_.places(); ++place) {
    if (!loans_[static_cast<size_t>(place)].empty()) return group_.instance(place);
  }
  return group_.instance(group_.here == 0 ? 1 : 0);
}

}  // namespace poptorch::emulator
