#include "emulator/collectives/sent_gather.hpp"

#include <cstring>
#include <utility>

namespace poptorch::emulator {

SentGather::SentGather(const CollectiveSpec& spec, int number, InstanceGroup group, Peers& peers)
    : RemoteCollective(spec, number, std::move(group), peers), transfers_(group_, peers, true) {}

void SentGather::begin() {
  transfers_.begin(tag(0), tag(0));
  spec_.kind == CollectiveKind::kAllGather ? begin_gather() : begin_all_to_all();
}

// Gathers into the result of the first replica here.
void SentGather::begin_gather() {
  const int64_t bytes = spec_.operand_bytes();
  for (size_t i = 0; i < operands_.size(); ++i) {
    std::memcpy(results_[0] + (group_.begin() + static_cast<int64_t>(i)) * bytes, operands_[i],
                static_cast<size_t>(bytes));
  }
  for (int place = 0; place < group_.places(); ++place) {
    if (place == group_.here) continue;
    for (const std::byte* operand : operands_) transfers_.add_send(place, operand, bytes);
    const int64_t first = group_.begins[place];
    for (int64_t rank = first; rank < first + group_.count(place); ++rank) {
      transfers_.add_receive(place, results_[0] + rank * bytes, bytes);
    }
  }
}

void SentGather::begin_all_to_all() {
  const int64_t row = spec_.operand_bytes() / group_.ranks();
  for (int place = 0; place < group_.places(); ++place) {
    const int64_t first = group_.begins[place];
    for (size_t i = 0; i < operands_.size(); ++i) {
      for (int64_t to = first; to < first + group_.count(place); ++to) {
        const std::byte* data = operands_[i] + to * row;
        if (place == group_.here) {
          std::memcpy(results_[to - first] + (first + static_cast<int64_t>(i)) * row, data,
                      static_cast<size_t>(row));
        } else {
          transfers_.add_send(place, data, row);
        }
      }
    }
    if (place == group_.here) continue;
    for (int64_t from = first; from < first + group_.count(place); ++from) {
      for (std::byte* result : results_) transfers_.add_receive(place, result + from * row, row);
    }
  }
}

bool SentGather::advance() {
  const bool moved = transfers_.advance();
  if (moved && is_finished() && spec_.kind == CollectiveKind::kAllGather) {
    const auto bytes = static_cast<size_t>(spec_.operand_bytes() * group_.ranks());
    for (size_t i = 1; i < results_.size(); ++i) std::memcpy(results_[i], results_[0], bytes);
  }
  return moved;
}

int SentGather::waits_for() const {
  const int place = transfers_.first_waiting();
  return place < 0 ? transfers_.first_moving() : place;
}

}  // namespace poptorch::emulator
