// Holds the bytes of state slots and constants, and converts them to and from the row-major form.
//
// A slot that the program writes has a copy for every replica (members of a group write the same);
// a slot that it only reads has one for every group. Internally, a slot may have another layout.
// Only replicas of this instance, and groups that have one, have copies.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/bound/code.hpp"
#include "emulator/bound/options.hpp"
#include "emulator/host/memory.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

class StateStore {
 public:
  // If `lazy`, a slot has memory only from the first write() on; until then read() gives its
  // initial value.
  StateStore(const Code& code, const StateBytes& initial, const Share& share, bool lazy = false);

  // Returns the memory of a kState or kConstant storage that `replica` uses.
  std::byte* address(int32_t storage, int replica) const;

  // Read and write a slot by name, row-major; grouped slots are [groups, ...]. An unknown name
  // raises UserError. A slot that was never written holds its initial value. read() leaves the part
  // of `data` unchanged that belongs to groups without a replica here.
  void read(const std::string& name, std::byte* data) const;
  void write(const std::string& name, const std::byte* data);
  int64_t bytes(const std::string& name) const;  // of `data` above
  // Returns the groups of the slot without a replica here, each with the instance of its first
  // replica.
  std::vector<std::pair<int, int>> remote_groups(const std::string& name) const;
  // Returns the instance of each group's first replica; empty if every instance has a replica of
  // each group.
  std::vector<int> owners(const std::string& name) const;
  // Returns whether runs change any state other than sums of gradients.
  bool is_written() const;
  // Resets sums of gradients, which are partial after a run that did not complete.
  void restart_accumulators();
  // Resets the slots that runs write to their initial values, as after compilation. Other slots
  // keep their values.
  void restart();
  // Returns a number that changes whenever write() may have changed a slot that programs only read.
  int64_t version() const { return version_; }

  int64_t state_bytes() const;
  int64_t constant_bytes() const;
  int64_t copied_bytes() const;

 private:
  struct Slot {
    const program::State* state = nullptr;
    bool written = false;
    std::vector<int32_t> storages;  // the slot's own, then its copies in other layouts
    std::vector<int> groups;        // that have a replica here, ascending
  };
  // The copies of one storage.
  struct Held {
    const Storage* storage;
    int32_t slot = -1;  // -1: a constant
    std::vector<Memory> copies;
  };

  // Allocates memory for a storage, which other instances may be able to read directly.
  Memory make(const Storage& storage, const std::string& what) const;
  void fill(const Slot& slot, const std::shared_ptr<std::byte>& given);
  const Slot& find(const std::string& name) const;
  int groups(const Slot& slot) const;
  int group(const Slot& slot, int replica) const;
  int copies(const Slot& slot) const;
  int group_of_copy(const Slot& slot, int copy) const;
  bool is_held(const Slot& slot) const;
  void put(int32_t storage, int copy, const std::byte* plain);
  void begin_anew(const Slot& slot);

  int replicas_;
  Share share_;
  int64_t version_ = 0;
  support::Table<int, Slot> slots_;
  std::unordered_map<StorageId, Held> held_;         // of states and constants
  std::deque<Storage> unnamed_;                      // of slots that no instruction names
  std::unordered_map<std::string, size_t> by_name_;  // look-up only
};

}  // namespace poptorch::emulator
