#include "emulator/collectives/transfers.hpp"

#include <algorithm>

#include "emulator/collectives/peers.hpp"
#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {
namespace {

// Limits a zero-copy transfer, whose end is a sign of life, in units of Fabric::least_bulk().
constexpr int64_t kMostBulk = 64;

}  // namespace

template <typename Byte>
void Transfers::Queue<Byte>::add(Byte* data, int64_t bytes, int64_t most) {
  for (int64_t at = 0; at < bytes; at += most) {
    pieces.push_back({data + at, std::min(most, bytes - at)});
  }
}

template <typename Byte>
template <typename Move>
bool Transfers::Queue<Byte>::advance(Move move) {
  const size_t before = next;
  while (!is_done() && move(pieces[next])) ++next;
  return next != before;
}

Transfers::Transfers(const InstanceGroup& group, Peers& peers, bool zero_copy)
    : group_(group), peers_(peers), zero_copy_(zero_copy), places_(group.instances.size()) {}

Fabric& Transfers::fabric() const { return peers_.fabric(); }

void Transfers::begin(const Tag& send_tag, const Tag& receive_tag) {
  send_tag_ = send_tag;
  receive_tag_ = receive_tag;
  for (Place& place : places_) {
    place.sends.clear();
    place.receives.clear();
    place.moving.clear();
  }
}

// Returns the most bytes of one piece of a transfer of `bytes`.
int64_t Transfers::longest(int64_t bytes) const {
  const int64_t least = fabric().least_bulk();
  return bytes >= least ? kMostBulk * least : fabric().longest_message(group_.is_on_one_host);
}

void Transfers::add_send(int place, const std::byte* data, int64_t bytes) {
  of(place).sends.add(data, bytes, longest(bytes));
}

void Transfers::add_receive(int place, std::byte* into, int64_t bytes) {
  of(place).receives.add(into, bytes, longest(bytes));
}

bool Transfers::advance() {
  bool moved = false;
  for (int place = 0; place < group_.places(); ++place) moved = settle(place) || moved;
  for (int place = 0; place < group_.places(); ++place) {
    moved |= of(place).sends.advance(
        [&](const auto& piece) { return send(place, send_tag_, piece.data, piece.bytes); });
    moved |= of(place).receives.advance(
        [&](const auto& piece) { return receive(place, piece.data, piece.bytes); });
  }
  return moved;
}

bool Transfers::send(int place, const Tag& tag, const std::byte* data, int64_t bytes) {
  const int other = group_.instance(place);
  if (!zero_copy_) return fabric().send(other, tag, data, bytes);
  return note(place, fabric().offer(other, tag, data, bytes));
}

// Returns whether the message has arrived or is on its way.
bool Transfers::receive(int place, std::byte* into, int64_t bytes) {
  const int other = group_.instance(place);
  if (zero_copy_) return note(place, fabric().request(other, receive_tag_, into, bytes));
  // If the other's next message is not of `receive_tag_`, receiving would copy it first; the
  // collective reads it in place.
  if (fabric().is_next(other, send_tag_)) return false;
  return fabric().receive(other, receive_tag_, into, bytes);
}

bool Transfers::note(int place, int64_t transfer) {
  if (transfer > 0) of(place).moving.push_back(transfer);
  return transfer != Fabric::kNoRoom;
}

// Removes the zero-copy transfers that have ended. Returns whether there were any.
bool Transfers::settle(int place) {
  std::deque<int64_t>& moving = of(place).moving;
  const size_t before = moving.size();
  while (!moving.empty() && fabric().is_over(group_.instance(place), moving.front())) {
    moving.pop_front();
  }
  return moving.size() != before;
}

int Transfers::first_waiting() const {
  for (int place = 0; place < group_.places(); ++place) {
    if (!of(place).receives.is_done()) return place;
  }
  for (int place = 0; place < group_.places(); ++place) {
    if (!of(place).sends.is_done()) return place;
  }
  return -1;
}

int Transfers::first_moving() const {
  for (int place = 0; place < group_.places(); ++place) {
    if (!of(place).moving.empty()) return place;
  }
  return -1;
}

}  // namespace poptorch::emulator
