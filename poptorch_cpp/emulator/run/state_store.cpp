#include "emulator/run/state_store.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/kernels/base/relayout.hpp"
#include "program/program.hpp"
#include "program/replica_groups.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

namespace {

// Returns whether other instances may read the storage's memory directly.
bool may_be_lent(const Storage& storage, const Share& share) {
  return storage.meets && share.instances > 1 && share.fabric;
}

// Returns whether a slot can use the memory at `values` directly, without a copy.
bool may_hold(const std::byte* values, const Storage& storage, const Share& share) {
  return values && !may_be_lent(storage, share) && storage.layout == Layout{} &&
         storage.bytes() % Memory::kAlignment == 0 &&
         reinterpret_cast<uintptr_t>(values) % Memory::kAlignment == 0 && storage.bytes() > 0;
}

constexpr const char* kAccumulator = "accumulator";  // a kind of slot: see ir/module.hpp

}  // namespace

StateStore::StateStore(const Code& code, const StateBytes& initial, const Share& share, bool lazy)
    : replicas_(code.program->replicas), share_(share) {
  for (const program::State& state : code.program->states) {
    by_name_.emplace(state.slot.name.text(), slots_.size());
    slots_.push_back({.state = &state,
                      .written = false,
                      .storages = {},
                      .groups = share_.groups(program::groups_of(state.slot, replicas_))});
  }
  for (size_t i = 0; i < code.storages.size(); ++i) {
    const Storage& storage = code.storages[i];
    const auto id = static_cast<int32_t>(i);
    const auto index = static_cast<size_t>(storage.index);
    if (storage.base == Base::kState) {
      slots_[index].written |= storage.writers > 0;
      slots_[index].storages.push_back(id);
      held_.emplace(id, Held{&storage, storage.index, {}});
    } else if (storage.base == Base::kConstant) {
      held_.emplace(id, Held{&storage, -1, {}})
          .first->second.copies.push_back(make(storage, "a constant"));
      put(id, 0, code.program->constants[index].data());
    }
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.storages.empty()) {
      // No instruction names the slot, but the session can still read and write it.
      const auto id = static_cast<int32_t>(code.storages.size() + unnamed_.size());
      slot.storages.push_back(id);
      unnamed_.push_back(
          {.base = Base::kState, .index = static_cast<int32_t>(i), .type = slot.state->slot.type});
      held_.emplace(id, Held{&unnamed_.back(), static_cast<int32_t>(i), {}});
    }
    const auto given = initial ? initial(*slot.state) : nullptr;
    if (given || !lazy) fill(slot, given);
  }
}

Memory StateStore::make(const Storage& storage, const std::string& what) const {
  return {storage.bytes(), what, may_be_lent(storage, share_)};
}

void StateStore::fill(const Slot& slot, const std::shared_ptr<std::byte>& given) {
  const ir::StateSlot& state = slot.state->slot;
  const int64_t bytes = state.type.bytes();
  for (int32_t storage : slot.storages) {
    const Storage& described = *held_.at(storage).storage;
    std::vector<Memory>& held = held_.at(storage).copies;
    // Replicas of a group write separate copies: the first copy uses the memory that was given.
    std::vector<bool> taken(static_cast<size_t>(groups(slot)), storage != slot.storages[0]);
    for (int copy = 0; copy < copies(slot); ++copy) {
      const int place = group_of_copy(slot, copy);
      std::byte* const values = given ? given.get() + place * bytes : nullptr;
      if (!taken[place] && may_hold(values, described, share_)) {
        taken[place] = true;
        held.emplace_back(std::shared_ptr<std::byte>(given, values), bytes);
        continue;
      }
      held.push_back(make(described, str("state '", state.name, "'")));
      if (values) {
        put(storage, copy, values);
      } else if (state.initial) {
        put(storage, copy, state.initial->data());
      }
    }
  }
}

void StateStore::put(int32_t storage, int copy, const std::byte* plain) {
  const Held& held = held_.at(storage);
  from_plain(held.storage->layout, held.storage->type, plain, held.copies[copy].data());
}

std::byte* StateStore::address(int32_t storage, int replica) const {
  const Held& held = held_.at(storage);
  if (held.slot < 0) return held.copies[0].data();
  const Slot& slot = slots_[held.slot];
  if (slot.written) {
    return held.copies[replica - share_.first(replicas_)].data();
  }
  const auto found = std::lower_bound(slot.groups.begin(), slot.groups.end(), group(slot, replica));
  const auto copy = found - slot.groups.begin();
  return held.copies[copy].data();
}

int StateStore::copies(const Slot& slot) const {
  return slot.written ? share_.count(replicas_) : static_cast<int>(slot.groups.size());
}

int StateStore::group_of_copy(const Slot& slot, int copy) const {
  return slot.written ? group(slot, share_.first(replicas_) + copy) : slot.groups[copy];
}

const StateStore::Slot& StateStore::find(const std::string& name) const {
  auto it = by_name_.find(name);
  if (it == by_name_.end()) {
    std::vector<std::string> names;
    for (const Slot& slot : slots_) names.push_back(slot.state->slot.name.text());
    const std::string close = support::closest_name(name, names);
    throw support::UserError(str("[state] there is no state '", name, "'",
                                 close.empty() ? "." : str(". Did you mean '", close, "'?")));
  }
  return slots_[it->second];
}

int StateStore::groups(const Slot& slot) const {
  return program::groups_of(slot.state->slot, replicas_).count();
}

int StateStore::group(const Slot& slot, int replica) const {
  return program::groups_of(slot.state->slot, replicas_).of(replica);
}

int64_t StateStore::bytes(const std::string& name) const {
  const Slot& slot = find(name);
  return groups(slot) * slot.state->slot.type.bytes();
}

void StateStore::read(const std::string& name, std::byte* data) const {
  const Slot& slot = find(name);
  const ir::Type& type = slot.state->slot.type;
  const int32_t own = slot.storages[0];
  const auto size = static_cast<size_t>(type.bytes());
  std::vector<bool> done(static_cast<size_t>(groups(slot)), false);
  const int first = share_.first(replicas_);
  for (int replica = first; replica < first + share_.count(replicas_); ++replica) {
    const int place = group(slot, replica);
    if (done[place]) continue;
    done[place] = true;
    if (!is_held(slot)) {
      const auto& initial = slot.state->slot.initial;
      std::byte* const to = data + place * type.bytes();
      initial ? std::memcpy(to, initial->data(), size) : std::memset(to, 0, size);
      continue;
    }
    to_plain(held_.at(own).storage->layout, type, address(own, replica),
             data + place * type.bytes());
  }
}

std::vector<std::pair<int, int>> StateStore::remote_groups(const std::string& name) const {
  const Slot& slot = find(name);
  const ir::StateSlot& state = slot.state->slot;
  std::vector<std::pair<int, int>> remote;
  for (int group = 0; group < groups(slot); ++group) {
    if (std::binary_search(slot.groups.begin(), slot.groups.end(), group)) continue;
    const auto members = program::groups_of(state, replicas_).members(group);
    remote.emplace_back(group, share_.owner(members.front(), replicas_));
  }
  return remote;
}

bool StateStore::is_held(const Slot& slot) const {
  return !held_.at(slot.storages[0]).copies.empty();
}

std::vector<int> StateStore::owners(const std::string& name) const {
  const Slot& slot = find(name);
  const ir::StateSlot& state = slot.state->slot;
  std::vector<int> owners;
  bool is_everywhere = true;
  for (int group = 0; group < groups(slot); ++group) {
    std::vector<bool> has(static_cast<size_t>(share_.instances), false);
    const auto members = program::groups_of(state, replicas_).members(group);
    for (int replica : members) has[share_.owner(replica, replicas_)] = true;
    is_everywhere &= std::find(has.begin(), has.end(), false) == has.end();
    owners.push_back(share_.owner(members.front(), replicas_));
  }
  return is_everywhere ? std::vector<int>() : owners;
}

void StateStore::write(const std::string& name, const std::byte* data) {
  const Slot& slot = find(name);
  if (!is_held(slot)) fill(slot, nullptr);
  ++version_;
  const int64_t bytes = slot.state->slot.type.bytes();
  for (int32_t storage : slot.storages) {
    for (int copy = 0; copy < copies(slot); ++copy) {
      const int place = group_of_copy(slot, copy);
      put(storage, copy, data + place * bytes);
    }
  }
}

bool StateStore::is_written() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.written && slot.state->slot.kind != kAccumulator;
  });
}

void StateStore::restart_accumulators() {
  for (const Slot& slot : slots_) {
    if (slot.state->slot.kind == kAccumulator) begin_anew(slot);
  }
}

void StateStore::restart() {
  ++version_;
  for (const Slot& slot : slots_) {
    if (slot.written) begin_anew(slot);
  }
}

void StateStore::begin_anew(const Slot& slot) {
  const auto& initial = slot.state->slot.initial;
  for (int32_t storage : slot.storages) {
    std::vector<Memory>& copies = held_.at(storage).copies;
    for (size_t copy = 0; copy < copies.size(); ++copy) {
      std::memset(copies[copy].data(), 0, static_cast<size_t>(copies[copy].bytes()));
      if (initial) put(storage, static_cast<int>(copy), initial->data());
    }
  }
}

int64_t StateStore::state_bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    for (const Memory& memory : held_.at(slot.storages[0]).copies) {
      bytes += memory.bytes();
    }
  }
  return bytes;
}

int64_t StateStore::constant_bytes() const {
  int64_t bytes = 0;
  for (const auto& [_, held] : held_) {
    if (held.slot >= 0 || held.storage->copy_of >= 0) continue;
    for (const Memory& memory : held.copies) bytes += memory.bytes();
  }
  return bytes;
}

int64_t StateStore::copied_bytes() const {
  int64_t bytes = 0;
  for (const auto& [_, held] : held_) {
    if (held.storage->copy_of < 0) continue;
    for (const Memory& memory : held.copies) bytes += memory.bytes();
  }
  return bytes;
}

}  // namespace poptorch::emulator
