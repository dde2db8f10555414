#include "emulator/transport/frame_fabric.hpp"

#include <unistd.h>

#include <algorithm>

#include "emulator/host/clock.hpp"
#include "emulator/transport/frame_link.hpp"
#include "emulator/transport/shared_fabric.hpp"
#include "support/error.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {
namespace {

constexpr double kSecondsToDrain = 2;  // seconds in which the others may receive what was sent

class FrameFabric final : public Fabric {
 public:
  FrameFabric(int instance, std::vector<Reached> others, std::shared_ptr<Fabric> local,
              int64_t least_bulk)
      : instance_(instance),
        least_bulk_(least_bulk),
        local_(std::move(local)),
        peers_(others.size()) {
    for (size_t i = 0; i < others.size(); ++i) {
      Peer& peer = peers_[i];
      peer.name = std::move(others[i].name);
      peer.local_number = others[i].local_number;
      if (others[i].wire)
        peer.link = std::make_unique<FrameLink>(std::move(others[i].wire), events());
    }
  }
  ~FrameFabric() override { leave(); }

  int instances() const override { return static_cast<int>(peers_.size()); }
  int instance() const override { return instance_; }
  int64_t most_bytes() const override { return FrameLink::kMost; }
  int64_t most_bytes_on_host() const override {
    return local_ ? local_->most_bytes() : most_bytes();
  }
  bool send(int to, const Tag& tag, const std::byte* data, int64_t bytes) override {
    Peer& there = peer(to);
    return there.is_asked(tag) ? local_->send(there.local_number, tag, data, bytes)
                               : there.link->send(tag, data, bytes);
  }
  int64_t offer(int to, const Tag& tag, const std::byte* data, int64_t bytes) override {
    if (bytes < least_bulk_) return Fabric::offer(to, tag, data, bytes);
    return peer(to).link->offer(tag, data, bytes);
  }
  int64_t request(int from, const Tag& tag, std::byte* into, int64_t bytes) override {
    if (bytes < least_bulk_) return Fabric::request(from, tag, into, bytes);
    return peer(from).link->request(tag, into, bytes);
  }
  bool is_over(int other, int64_t transfer) override {
    return transfer == 0 || peer(other).link->is_over(transfer);
  }
  int64_t least_bulk() const override { return least_bulk_; }
  void withdraw(uint32_t program, double until) override;
  bool is_slow() const override {
    return std::ranges::any_of(
        peers_, [](const Peer& peer) { return peer.link && peer.link->has_transfers(); });
  }
  using Fabric::receive;
  bool receive(int from, const Tag& tag, int64_t bytes, const Use& use) override {
    Peer& there = peer(from);
    if (there.is_asked(tag)) return local_->receive(there.local_number, tag, bytes, use);
    return there.mailbox.receive(*there.link, tag, bytes, there.name, use);
  }
  bool is_next(int from, const Tag& tag) override {
    Peer& there = peer(from);
    return there.is_asked(tag) ? local_->is_next(there.local_number, tag)
                               : there.mailbox.is_next(*there.link, tag, there.name);
  }
  // Reads from wires and the local fabric: a cycle of waits for room may include both.
  void read_all() override {
    for (Peer& peer : peers_) {
      if (peer.link) peer.mailbox.read_all(*peer.link, peer.name);
    }
    if (local_) local_->read_all();
  }
  std::string end_of(int other) override {
    Peer& there = peer(other);
    std::string end = there.local_number < 0 ? "" : local_->end_of(there.local_number);
    return end.empty() && there.link ? there.link->end() : end;
  }
  bool is_stopped(int other) override {
    const int local_number = peer(other).local_number;
    return local_number >= 0 && local_->is_stopped(local_number);
  }
  bool is_on_this_host(int other) const override {
    const int local_number = peers_[other].local_number;
    return local_number >= 0 && local_->is_on_this_host(local_number);
  }
  std::string name(int other) const override { return peers_[other].name; }
  void forget(uint32_t program, uint32_t run) override {
    for (Peer& peer : peers_) peer.mailbox.forget(program, run);
    if (local_) local_->forget(program, run);
  }
  int64_t last_run(int other, uint32_t program) override {
    Peer& there = peer(other);
    const int64_t local =
        there.local_number < 0 ? -1 : local_->last_run(there.local_number, program);
    return std::max(local, there.mailbox.last_run(program));
  }
  EventCount& events() override { return local_ ? local_->events() : Fabric::events(); }
  void leave() override;

 private:
  struct Peer {
    std::string name;
    std::unique_ptr<FrameLink> link;  // null: this instance itself
    int local_number = -1;
    Mailbox mailbox;
    // Whether the local fabric carries such messages. All messages of a group go the same way.
    bool is_asked(const Tag& tag) const { return tag.on_one_host != 0 && local_number >= 0; }
  };

  Peer& peer(int instance) { return peers_[instance]; }

  const int instance_;
  const int64_t least_bulk_;
  const pid_t made_in_ = getpid();
  const std::shared_ptr<Fabric> local_;
  support::Table<int, Peer> peers_;
  bool has_left_ = false;
};

void FrameFabric::withdraw(uint32_t program, double until) {
  for (int other = 0; other < instances(); ++other) {
    Peer& peer = this->peer(other);
    bool is_sane = true;  // whether what it sends is valid
    const auto is_last = [&] { return !is_sane || now() > until || is_stopped(other); };
    while (peer.link && !peer.link->withdraw(program, is_last())) {
      try {
        peer.mailbox.read_all(*peer.link, peer.name);  // notes come after messages
      } catch (const support::UserError&) {
        is_sane = false;
      }
      events().sleep(signal());
    }
  }
}

void FrameFabric::leave() {
  if (has_left_) return;
  has_left_ = true;
  if (getpid() != made_in_) {  // the threads are the parent's
    for (Peer& peer : peers_) (void)peer.link.release();
    return;
  }
  const auto is_waited_for = [](const Peer& peer) {
    return peer.link && !peer.link->is_end_acknowledged() && peer.link->end().empty();
  };
  for (Peer& peer : peers_) {
    if (peer.link) peer.link->announce_end();
  }
  const double until = now() + kSecondsToDrain;
  for (int64_t round = 0; now() < until && std::ranges::any_of(peers_, is_waited_for); ++round) {
    const uint32_t seen = signal();
    nap(round, seen);
  }
  for (Peer& peer : peers_) {
    if (peer.link) peer.link->close();
  }
}

}  // namespace

std::unique_ptr<Fabric> make_frame_fabric(int instance, std::vector<Reached> others,
                                          std::shared_ptr<Fabric> local, int64_t least_bulk) {
  return std::make_unique<FrameFabric>(instance, std::move(others), std::move(local), least_bulk);
}

}  // namespace poptorch::emulator
