// Implements agreement.hpp: hyper-parameters that the host changes between runs. Nobody waits for
// others: who changes one tells them, and whoever hears of another value than its own warns.
#include <algorithm>
#include <utility>

#include "session/agreement.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::session {

using support::float_text;
using support::str;

namespace {

constexpr size_t kMostReplaced = 64;  // values of a hyper-parameter that are remembered

double number_of(const emulator::Engine& engine, const std::string& name) {
  double value = 0;
  engine.read_state(name, reinterpret_cast<std::byte*>(&value));
  return value;
}

}  // namespace

void Agreement::before_run() {
  const emulator::Share& share = engine_.share();
  if (share.instances == 1 || !share.fabric) return;
  if (run_ < 0) {
    compare_beginnings();
    for (const program::State& state : engine_.program().states) {
      if (state.slot.kind != "hyper_parameter") continue;
      const std::string& name = state.slot.name.text();
      slots_.push_back({.name = name, .value = number_of(engine_, name), .replaced = {}});
    }
  }
  ++run_;
  if (!slots_.empty()) hear();
}

void Agreement::note_write(const std::string& name) {
  const auto slot = std::ranges::find(slots_, name, &Slot::name);
  if (slot == slots_.end()) return;
  const double before = std::exchange(slot->value, number_of(engine_, name));
  if (before == slot->value) return;
  const int64_t number = slot - slots_.begin();
  slot->replaced.push_back({.run = run_ + 1, .slot = number, .value = before});
  if (slot->replaced.size() > kMostReplaced) slot->replaced.pop_front();
  const Change change{.run = run_ + 1, .slot = number, .value = slot->value};
  engine_.tell(reinterpret_cast<const std::byte*>(&change), sizeof change);
}

double Agreement::value_in(int64_t run, const Slot& slot) const {
  for (const Change& replaced : slot.replaced) {
    if (replaced.run > run) return replaced.value;
  }
  return slot.value;
}

void Agreement::hear() {
  Change change;
  auto* const bytes = reinterpret_cast<std::byte*>(&change);
  for (int other = 0; (other = engine_.hear(bytes, sizeof change)) >= 0;) {
    if (change.slot < 0 || change.slot >= static_cast<int64_t>(slots_.size())) continue;
    // Only what it came to have before a run counts.
    const auto is_before = [&](const Heard& heard) {
      return heard.instance == other && heard.change.slot == change.slot &&
             heard.change.run == change.run;
    };
    std::erase_if(heard_, is_before);
    heard_.push_back({other, change});
  }
  // It may be ahead: this instance may still change its own.
  const auto is_due = [&](const Heard& heard) { return heard.change.run <= run_; };
  for (const auto& [instance, theirs] : heard_) {
    const Slot& slot = slots_[static_cast<size_t>(theirs.slot)];
    const double own = value_in(theirs.run, slot);
    if (theirs.run > run_ || own == theirs.value || has_warned_) continue;
    has_warned_ = true;
    support::log(support::LogLevel::kWarn,
                 str("[instances] '", slot.name, "' is ", float_text(theirs.value), " in instance ",
                     instance, " from run ", theirs.run, " on (the first is 0), and ",
                     float_text(own), " in this one, instance ", engine_.share().instance,
                     ": their replicas train different models. Call setOptimizer() with equal "
                     "values in all instances, as by a mean of the losses of all."));
  }
  std::erase_if(heard_, is_due);
}

}  // namespace poptorch::session
