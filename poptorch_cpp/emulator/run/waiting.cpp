// The part of the runner that waits for other instances.
#include "emulator/run/runner.hpp"
#include "emulator/transport/fabric.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

// Calls `work`, which runs the machines. Notifies the other instances if it fails.
void Runner::run_with_peers(const std::function<void()>& work) {
  if (!peers_) return work();
  peers_->telling(work);
}

void Runner::exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                      const std::vector<int>& owners) {
  const Share& share = options_.share;
  if (share.instances == 1) return;
  // Raises an error. Only runs that need no other instance work without a fabric.
  if (!share.fabric) return Peers(share, program_).exchange(what, rows, row_bytes, owners);
  if (!peers_) peers_ = std::make_unique<Peers>(share, program_);
  peers_->exchange(what, rows, row_bytes, owners);
}

void Runner::exchange_before_run(const std::string& what, std::byte* rows, int64_t row_bytes,
                                 const std::vector<int>& owners) {
  const Share& share = options_.share;
  if (share.instances == 1 || !share.fabric) return;
  if (!peers_) peers_ = std::make_unique<Peers>(share, program_);
  peers_->exchange_before_run(what, rows, row_bytes, owners);
}

// Waits, in a thread for which no machine can continue. One such thread polls for messages from
// peers and helps with kernels meanwhile; the other threads sleep until an announcement.
void Runner::wait_for_peers(int worker, uint32_t signal, bool alone) {
  std::unique_lock lock(remote_mutex_, std::try_to_lock);
  if (!lock) return pool_.idle(signal);
  Fabric& fabric = peers_->fabric();
  for (int64_t round = 0; pool_.signal() == signal && stop_.may_continue(worker); ++round) {
    const uint32_t seen = fabric.signal();
    const double before = peers_->progress();
    if (remote_.poll([&] { queue_.note_meeting(); })) return;
    if (peers_->progress() != before) round = 0;
    if (!alone && pool_.help()) {
      round = 0;
      continue;
    }
    if (round % Peers::kRoundsBetweenChecks == Peers::kRoundsBetweenChecks - 1) check_peers();
    fabric.nap(round, seen);
  }
  lock.unlock();
  if (pool_.signal() == signal) pool_.announce();  // so that another thread polls meanwhile
}

// Throws UserError if the awaited instance has ended or takes too long: Peers::check().
void Runner::check_peers() {
  RemoteCollective* const remote = remote_.first_under_way();
  if (remote) peers_->check(remote->awaited(), collective_text(remote->number()));
}

// Returns the collective's name and its place in the model.
std::string Runner::collective_text(int number) const {
  for (const IpuCode& ipu : code_.ipus) {
    for (const Step& step : ipu.steps) {
      if (step.kind != Step::Kind::kCollective || step.index != number) continue;
      return std::string(name_of(code_.collectives[number].kind)) +
             program::place_of(program_, step.op_id);
    }
  }
  return "a collective";
}

}  // namespace poptorch::emulator
