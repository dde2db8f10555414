// Compares the host's writes between runs. Instances do not wait for each other: an instance that
// changes a state notifies the others, and one that has not made the same change warns.
#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/run/state_store.hpp"
#include "session/state_comparison.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::session {

using support::float_text;
using support::str;

namespace {

constexpr size_t kMostWrites = 64;  // remembered per slot

}  // namespace

void StateComparison::before_run() {
  const emulator::Share& share = engine_.share();
  if (share.instances == 1 || !share.fabric) return;
  if (++run_ == 0) {
    digest_initial_state();
    list_slots();
  }
  note_changes();
  if (!has_compared_) compare_initial_state();
  if (slots_.empty()) return;
  send_changes();
  receive_changes();
}

// Lists shared slots, except buffers, which are private to each replica after the first run.
void StateComparison::list_slots() {
  for (const program::State& state : engine_.program().states) {
    if (!is_shared(state.slot) || state.slot.kind == "buffer") continue;
    slots_.push_back({.name = state.slot.name.text(),
                      .is_number = state.slot.kind == "hyper_parameter",
                      .first = 0,
                      .writes = {},
                      .overwritten = {}});
    if (slots_.back().is_number) slots_.back().first = content_of(slots_.back());
  }
  std::ranges::sort(slots_, {}, &Slot::name);
}

uint64_t StateComparison::content_of(const Slot& slot) const {
  if (!slot.is_number) return digest_of(engine_, slot.name);
  double number = 0;
  engine_.state().read(slot.name, reinterpret_cast<std::byte*>(&number));
  return std::bit_cast<uint64_t>(number);
}

void StateComparison::before_write(const std::string& name) {
  const auto slot = std::ranges::lower_bound(slots_, name, {}, &Slot::name);
  if (slot == slots_.end() || slot->name != name || slot->overwritten) return;
  slot->overwritten = content_of(*slot);
  written_.push_back(slot - slots_.begin());
}

// Must come before anything that may interrupt the run: all instances number a change by the run
// after it.
void StateComparison::note_changes() {
  for (const int64_t number : std::exchange(written_, {})) {
    Slot& slot = slots_[number];
    const Change change{.run = run_, .slot = number, .content = content_of(slot)};
    const bool is_other = std::exchange(slot.overwritten, std::nullopt) != change.content;
    if (is_other) unsent_.push_back(change);
    slot.writes.push_back(change);
    if (slot.writes.size() <= kMostWrites) continue;
    slot.first = slot.writes.front().content;
    slot.writes.pop_front();
  }
}

void StateComparison::send_changes() {
  for (const Change& change : std::exchange(unsent_, {})) {
    engine_.tell(reinterpret_cast<const std::byte*>(&change), sizeof change);
  }
}

// Returns the content that this instance's host had given the slot before `run`. Runs change slots
// that are not numbers: for these only a write directly before `run` counts.
std::optional<uint64_t> StateComparison::given_before(int64_t run, const Slot& slot) {
  const auto later = std::ranges::upper_bound(slot.writes, run, {}, &Change::run);
  if (later != slot.writes.begin()) {
    const Change& latest = *(later - 1);
    if (slot.is_number || latest.run == run) return latest.content;
  }
  if (slot.is_number) return slot.first;
  return std::nullopt;
}

void StateComparison::receive_changes() {
  Change change;
  auto* const bytes = reinterpret_cast<std::byte*>(&change);
  for (int other = 0; (other = engine_.hear(bytes, sizeof change)) >= 0;) {
    const bool is_known = change.slot >= 0 && change.slot < static_cast<int64_t>(slots_.size());
    if (is_known) received_.push_back({other, change});
  }
  // The other instance may be ahead: this one may still make the same change.
  const auto is_due = [&](const Received& received) { return received.change.run <= run_; };
  for (const Received& received : received_) {
    if (is_due(received)) warn_unless_equal(received);
  }
  std::erase_if(received_, is_due);
}

void StateComparison::warn_unless_equal(const Received& received) {
  const auto& [instance, change] = received;
  const Slot& slot = slots_[change.slot];
  const std::optional<uint64_t> own = given_before(change.run, slot);
  if (own == change.content || std::exchange(has_warned_, true)) return;
  const auto number = [](uint64_t content) { return float_text(std::bit_cast<double>(content)); };
  const std::string here = str("this one, instance ", engine_.share().instance);
  const std::string apart = ": their replicas have different models. ";
  support::log(support::LogLevel::kWarn,
               slot.is_number ? str("[instances] '", slot.name, "' is ", number(change.content),
                                    " in instance ", instance, " from run ", change.run,
                                    " on (the first is 0), and ", number(*own), " in ", here, apart,
                                    "Call setOptimizer() with equal values in all instances, for "
                                    "example computed from the mean of all losses.")
                              : str("[instances] '", slot.name, "' was written in instance ",
                                    instance, " before run ", change.run, " (the first is 0), and ",
                                    own ? "with other values" : "not", " in ", here, apart,
                                    "Write the same in all instances: load one checkpoint, or use "
                                    "popdist.collectives.broadcast()."));
}

}  // namespace poptorch::session
