#include "emulator/run/exchange.hpp"

#include <algorithm>
#include <cstring>

namespace poptorch::emulator {
namespace {

// The number of tensors by which a sender may be ahead of the receiver.
constexpr size_t kSlotsAhead = 2;

}  // namespace

bool Channel::send(const std::byte* data, bool even_if_full) {
  std::lock_guard lock(mutex_);
  if (count_ >= kSlotsAhead && !even_if_full) return false;
  if (empty_.empty()) {
    empty_.push_back(slots_.size());
    slots_.emplace_back(bytes_, "a tensor on its way between IPUs");
  }
  const size_t slot = empty_.back();
  empty_.pop_back();
  std::memcpy(slots_[slot].data(), data, static_cast<size_t>(bytes_));
  if (count_ == full_.size()) {
    std::rotate(full_.begin(), full_.begin() + static_cast<std::ptrdiff_t>(first_), full_.end());
    first_ = 0;
    full_.push_back(slot);
  } else {
    full_[(first_ + count_) % full_.size()] = slot;
  }
  ++count_;
  return true;
}

bool Channel::receive(std::byte* data) {
  std::lock_guard lock(mutex_);
  if (count_ == 0) return false;
  const size_t slot = full_[first_];
  std::memcpy(data, slots_[slot].data(), static_cast<size_t>(bytes_));
  first_ = (first_ + 1) % full_.size();
  --count_;
  empty_.push_back(slot);
  return true;
}

void Channel::clear() {
  for (; count_ > 0; --count_, first_ = (first_ + 1) % full_.size()) {
    empty_.push_back(full_[first_]);
  }
}

int64_t Barrier::arrive() {
  std::lock_guard lock(mutex_);
  const int64_t ticket = round_;
  if (++arrived_ == members_) {
    arrived_ = 0;
    ++round_;
  }
  return ticket;
}

bool Barrier::is_open(int64_t ticket) {
  std::lock_guard lock(mutex_);
  return round_ > ticket;
}

}  // namespace poptorch::emulator
