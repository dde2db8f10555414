#include "session/state_comparison.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "emulator/run/state_store.hpp"
#include "storage/container.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::session {

using support::str;

bool is_shared(const ir::StateSlot& slot) {
  return slot.group_size == 0 && (slot.kind == "parameter" || slot.kind == "buffer" ||
                                  slot.kind == "optimiser_state" || slot.kind == "hyper_parameter");
}

uint64_t digest_of(const emulator::Engine& engine, const std::string& name) {
  std::string bytes(static_cast<size_t>(engine.state().bytes(name)), '\0');
  engine.state().read(name, reinterpret_cast<std::byte*>(bytes.data()));
  return storage::digest_of(bytes).low;
}

namespace {

std::vector<const ir::StateSlot*> compared_slots(const program::Program& program) {
  std::vector<const ir::StateSlot*> slots;
  for (const program::State& state : program.states) {
    if (is_shared(state.slot)) slots.push_back(&state.slot);
  }
  return slots;
}

void warn(const std::string& text) { support::log(support::LogLevel::kWarn, text); }

// Warns about a difference between two rows: `first` is that of instance 0, `other` that of
// `instance`. A row has digests by slot, then the seed.
void tell(const std::vector<const ir::StateSlot*>& slots, const uint64_t* first,
          const uint64_t* other, int instance) {
  if (first[slots.size()] != other[slots.size()]) {
    warn(str("[instances] instance ", instance, " has the random seed ", other[slots.size()],
             " and instance 0 has ", first[slots.size()],
             ": random numbers are not those of one process. Give all the same randomSeed()."));
  }
  const auto differs = [&](size_t i) { return first[i] != other[i]; };
  std::vector<size_t> places(slots.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto found = std::find_if(places.begin(), places.end(), differs);
  if (found == places.end()) return;
  const auto more = std::count_if(found + 1, places.end(), differs);
  warn(str("[instances] '", slots[*found]->name, "' has other values in instance ", instance,
           " than in instance 0", more > 0 ? str(", and so have ", more, " more") : "",
           slots[*found]->kind == "buffer" ? ": their replicas compute with different buffers"
                                           : ": their replicas have different models",
           ". Seed all instances alike (randomSeed() seeds torch too), load one checkpoint, or use "
           "popdist.collectives.broadcast()."));
}

}  // namespace

// Notes this instance's row: digests by slot, then the seed. The row is that of the first run, even
// if the other instances receive it in a later one.
void StateComparison::digest_initial_state() {
  const emulator::Share& share = engine_.share();
  const std::vector<const ir::StateSlot*> slots = compared_slots(engine_.program());
  const size_t columns = slots.size() + 1;
  initial_.resize(columns * static_cast<size_t>(share.instances));
  uint64_t* const own = initial_.data() + columns * static_cast<size_t>(share.instance);
  for (size_t i = 0; i < slots.size(); ++i) own[i] = digest_of(engine_, slots[i]->name.text());
  own[slots.size()] = engine_.random_state().seed;
}

void StateComparison::compare_initial_state() {
  const emulator::Share& share = engine_.share();
  const std::vector<const ir::StateSlot*> slots = compared_slots(engine_.program());
  const size_t columns = slots.size() + 1;
  std::vector<int> owners(static_cast<size_t>(share.instances));
  std::iota(owners.begin(), owners.end(), 0);
  engine_.exchange_before_run("the first run of a program",
                              reinterpret_cast<std::byte*>(initial_.data()),
                              static_cast<int64_t>(columns * sizeof(uint64_t)), owners);
  has_compared_ = true;
  const std::vector<uint64_t> rows = std::move(initial_);
  const auto row = [&](int instance) {
    return rows.data() + columns * static_cast<size_t>(instance);
  };
  // Instance 0 reports the first instance that differs; any other instance reports only itself.
  for (int other = 1; other < share.instances; ++other) {
    if (share.instance != 0 && share.instance != other) continue;
    if (std::equal(row(0), row(0) + columns, row(other))) continue;
    return tell(slots, row(0), row(other), other);
  }
}

}  // namespace poptorch::session
