// The bytes of state slots and constants: where they are, and how they look from outside.
//
// A slot that the program writes has a copy for every replica (members of a group write the same);
// one that it only reads has one for every group. Inside, a slot may have another layout. Only
// replicas of this instance, and groups that have one, have copies.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/bound/code.hpp"
#include "emulator/bound/options.hpp"
#include "emulator/host/memory.hpp"

namespace poptorch::emulator {

class StateStore {
 public:
  // lazy: a slot has memory from the first write() on; until then it reads as it begins.
  StateStore(const Code& code, const StateBytes& initial, const Share& share, bool lazy = false);

  // Memory of a kState or kConstant storage as `replica` sees it.
  std::byte* address(int32_t storage, int replica) const;

  // Slots by name, row-major; grouped slots are [groups, ...]. UserError for another name. A slot
  // that nobody has written holds its initial value. Of groups without a replica here, `data` stays
  // as it is.
  void read(const std::string& name, std::byte* data) const;
  void write(const std::string& name, const std::byte* data);
  int64_t bytes(const std::string& name) const;  // of `data` above
  // Groups of the slot that have no replica here, each with the instance of its first one.
  std::vector<std::pair<int, int>> far_groups(const std::string& name) const;
  // The instance of each group's first replica; empty where every instance has one of each group.
  std::vector<int> owners(const std::string& name) const;
  // Whether runs change any state beside sums of gradients.
  bool is_written() const;
  // Sums of gradients begin anew: of a run that did not come to its end they hold a part.
  void restart_accumulators();
  // What runs have written begins anew, as after the compilation. The rest stays as it was written.
  void restart();
  // Changes whenever write() may have changed what programs only read.
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
  // By storage; memories_[s][copy].
  struct Held {
    int32_t slot = -1;  // -1: a constant
    std::vector<Memory> copies;
  };

  // Memory of its own, which may be lent to other instances.
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

  std::vector<Storage> storages_;
  int replicas_;
  Share share_;
  int64_t version_ = 0;
  std::vector<Slot> slots_;
  std::vector<Held> held_;
  std::unordered_map<std::string, size_t> by_name_;  // look-up only
};

}  // namespace poptorch::emulator
