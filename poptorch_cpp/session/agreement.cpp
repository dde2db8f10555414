// Implements agreement.hpp.
#include "session/agreement.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "storage/container.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::session {

using support::str;

namespace {

bool is_compared(const ir::StateSlot& slot) {
  return slot.group_size == 0 && (slot.kind == "parameter" || slot.kind == "optimiser_state" ||
                                  slot.kind == "hyper_parameter");
}

std::vector<std::string> compared_slots(const program::Program& program) {
  std::vector<std::string> names;
  for (const program::State& state : program.states) {
    if (is_compared(state.slot)) names.push_back(state.slot.name.text());
  }
  return names;
}

uint64_t digest_of(const emulator::Engine& engine, const std::string& name) {
  std::string bytes(static_cast<size_t>(engine.state_bytes(name)), '\0');
  engine.read_state(name, reinterpret_cast<std::byte*>(bytes.data()));
  return storage::digest_of(bytes).low;
}

void warn(const std::string& text) { support::log(support::LogLevel::kWarn, text); }

// `first` and `other` are rows of instance 0 and of another: digests by slot, then the seed.
void tell(const std::vector<std::string>& names, const uint64_t* first, const uint64_t* other,
          int instance) {
  if (first[names.size()] != other[names.size()]) {
    warn(str("[instances] instance ", instance, " has the random seed ", other[names.size()],
             " and instance 0 has ", first[names.size()],
             ": random numbers are not those of one process. Give all the same randomSeed()."));
  }
  const auto differs = [&](size_t i) { return first[i] != other[i]; };
  std::vector<size_t> places(names.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto found = std::find_if(places.begin(), places.end(), differs);
  if (found == places.end()) return;
  const auto more = std::count_if(found + 1, places.end(), differs);
  warn(str("[instances] '", names[*found], "' has other values in instance ", instance,
           " than in instance 0", more > 0 ? str(", and so have ", more, " more") : "",
           ": their replicas train different models. Seed all instances alike (randomSeed() seeds "
           "torch too), load one checkpoint, or use popdist.collectives.broadcast()."));
}

}  // namespace

void compare_beginnings(emulator::Engine& engine) {
  const emulator::Share& share = engine.share();
  if (share.instances == 1 || !share.fabric) return;
  const std::vector<std::string> names = compared_slots(engine.program());
  const size_t columns = names.size() + 1;
  std::vector<uint64_t> rows(columns * static_cast<size_t>(share.instances));
  const auto row = [&](int instance) {
    return rows.data() + columns * static_cast<size_t>(instance);
  };
  uint64_t* const own = row(share.instance);
  for (const std::string& name : names) own[&name - names.data()] = digest_of(engine, name);
  own[names.size()] = engine.random_state().seed;
  std::vector<int> owners(static_cast<size_t>(share.instances));
  std::iota(owners.begin(), owners.end(), 0);
  engine.exchange("the first run of a program", reinterpret_cast<std::byte*>(rows.data()),
                  static_cast<int64_t>(columns * sizeof(uint64_t)), owners);
  // Instance 0 tells of the first that differs, and that one of itself.
  for (int other = 1; other < share.instances; ++other) {
    if (share.instance != 0 && share.instance != other) continue;
    if (std::equal(row(0), row(0) + columns, row(other))) continue;
    return tell(names, row(0), row(other), other);
  }
}

}  // namespace poptorch::session
