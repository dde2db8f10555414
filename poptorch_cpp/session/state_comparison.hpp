// Checks that the instances of a program have equal state where they must.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "emulator/engine.hpp"

namespace poptorch::session {

// Warns about differences between instances: replicas would diverge, and nothing else shows it.
// Compares the state that all replicas share and the random seeds before the first run. From then
// on it compares the host's writes. Does nothing if there is one instance.
class StateComparison {
 public:
  explicit StateComparison(emulator::Engine& engine) : engine_(engine) {}

  // Must be called before each run, by all instances that a fabric joins. Throws a UserError as
  // Engine::exchange() does.
  void before_run();
  // Must be called before the host writes a state.
  void before_write(const std::string& name);

 private:
  // Reports to other instances that the host has written a slot between two runs.
  struct Change {
    int64_t run = 0;       // the run after the write
    int64_t slot = 0;      // index into slots_
    uint64_t content = 0;  // of the slot after the write
  };
  struct Slot {
    std::string name;
    bool is_number = false;               // a hyper-parameter, which runs do not change
    uint64_t first = 0;                   // content before the earliest of `writes`; numbers only
    std::deque<Change> writes;            // by this instance's host, the latest last
    std::optional<uint64_t> overwritten;  // content before the first write since the last run
  };
  struct Received {
    int instance = 0;
    Change change;
  };

  void digest_initial_state();
  void compare_initial_state();
  void list_slots();
  void note_changes();
  void send_changes();
  void receive_changes();
  void warn_unless_equal(const Received& received);
  uint64_t content_of(const Slot& slot) const;
  static std::optional<uint64_t> given_before(int64_t run, const Slot& slot);

  emulator::Engine& engine_;
  int64_t run_ = -1;               // the last that began; failed runs count too
  std::vector<uint64_t> initial_;  // a row per instance, until they are compared
  bool has_compared_ = false;
  std::vector<Slot> slots_;       // by name, from the first run on
  std::vector<int64_t> written_;  // indices into slots_, since the last run
  std::vector<Change> unsent_;
  std::vector<Received> received_;
  bool has_warned_ = false;
};

// Returns a digest of a state's bytes.
uint64_t digest_of(const emulator::Engine& engine, const std::string& name);
// Returns whether all replicas share the slot's value.
bool is_shared(const ir::StateSlot& slot);

}  // namespace poptorch::session
