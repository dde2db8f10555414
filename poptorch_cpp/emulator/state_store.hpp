// The bytes of state slots and constants: where they are, and how they look from outside.
//
// A slot that the program writes has a copy for every replica (members of a group write the same);
// one that it only reads has one for every group. Inside, a slot may have another layout.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/engine.hpp"
#include "emulator/memory.hpp"
#include "emulator/plan.hpp"

namespace poptorch::emulator {

class StateStore {
 public:
  StateStore(const Plan& plan, const StateBytes& initial);

  // Memory of a kState or kConstant storage as `replica` sees it.
  std::byte* address(int32_t storage, int replica) const;

  void read(const std::string& name, std::byte* data) const;
  void write(const std::string& name, const std::byte* data);
  int64_t bytes(const std::string& name) const;
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
  };
  // By storage; memories_[s][copy].
  struct Held {
    int32_t slot = -1;  // -1: a constant
    std::vector<Memory> copies;
  };

  void fill(Slot& slot, const std::shared_ptr<std::byte>& given);
  const Slot& find(const std::string& name) const;
  int groups(const Slot& slot) const;
  int group(const Slot& slot, int replica) const;
  int copies(const Slot& slot) const { return slot.written ? replicas_ : groups(slot); }
  void put(int32_t storage, int copy, const std::byte* plain);
  void begin_anew(const Slot& slot);

  std::vector<Storage> storages_;
  int replicas_;
  int64_t version_ = 0;
  std::vector<Slot> slots_;
  std::vector<Held> held_;
  std::unordered_map<std::string, size_t> by_name_;  // look-up only
};

}  // namespace poptorch::emulator
