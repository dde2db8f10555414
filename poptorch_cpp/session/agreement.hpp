// Whether the instances of a program have equal state where they must.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "emulator/engine.hpp"

namespace poptorch::session {

// Warns where it is not so: replicas would go apart, and nothing else shows it. Of the state that
// all replicas share, and of random seeds, before the first run; from then on of what the host
// writes. Nothing where there is one instance.
class Agreement {
 public:
  explicit Agreement(emulator::Engine& engine) : engine_(engine) {}

  // Before each run, by all instances that a fabric joins. UserError as Engine::exchange().
  void before_run();
  // Before the host writes a state.
  void before_write(const std::string& name);

 private:
  // What instances tell each other: the host has written a slot between two runs.
  struct Change {
    int64_t run = 0;       // the one after
    int64_t slot = 0;      // of slots_
    uint64_t content = 0;  // that the slot then had
  };
  struct Slot {
    std::string name;
    bool is_number = false;               // a hyper-parameter: runs leave it as it is
    uint64_t first = 0;                   // content before the earliest of `writes`; of numbers
    std::deque<Change> writes;            // by this instance's host, the latest last
    std::optional<uint64_t> overwritten;  // content before it was written since the last run
  };
  struct Heard {
    int instance = 0;
    Change change;
  };

  void note_beginnings();
  void compare_beginnings();
  void list_slots();
  void note_changes();
  void tell_changes();
  void hear();
  void warn_unless_equal(const Heard& heard);
  uint64_t content_of(const Slot& slot) const;
  static std::optional<uint64_t> given_before(int64_t run, const Slot& slot);

  emulator::Engine& engine_;
  int64_t run_ = -1;                  // the last that began; those that failed count as well
  std::vector<uint64_t> beginnings_;  // a row an instance, until they are compared
  bool has_compared_ = false;
  std::vector<Slot> slots_;       // by name, from the first run on
  std::vector<int64_t> written_;  // of slots_, since the last run
  std::vector<Change> untold_;
  std::vector<Heard> heard_;
  bool has_warned_ = false;
};

// As much of a state's bytes as tells it from others.
uint64_t digest_of(const emulator::Engine& engine, const std::string& name);
// Whether all replicas have the slot's value in common.
bool is_shared(const ir::StateSlot& slot);

}  // namespace poptorch::session
