// Whether the instances of a program have equal state where they must.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "emulator/engine.hpp"

namespace poptorch::session {

// Warns where it is not so: replicas would go apart, and nothing else shows it. Of the state that
// all replicas share, and of random seeds, before the first run; from then on of hyper-parameters,
// when the host changes one. Nothing where there is one instance.
class Agreement {
 public:
  explicit Agreement(emulator::Engine& engine) : engine_(engine) {}

  // Before each run, by all instances that a fabric joins. UserError as Engine::exchange().
  void before_run();
  // The host has written a state: perhaps a hyper-parameter.
  void note_write(const std::string& name);

 private:
  // What instances tell each other: the value in runs from `run` on.
  struct Change {
    int64_t run = 0;
    int64_t slot = 0;  // of slots_
    double value = 0;
  };
  struct Slot {
    std::string name;
    double value = 0;             // in the next run
    std::deque<Change> replaced;  // what it was before those runs, the latest last
  };
  struct Heard {
    int instance = 0;
    Change change;
  };

  void compare_beginnings() const;
  void hear();
  double value_in(int64_t run, const Slot& slot) const;

  emulator::Engine& engine_;
  int64_t run_ = -1;         // the last that began
  std::vector<Slot> slots_;  // hyper-parameters
  std::vector<Heard> heard_;
  bool has_warned_ = false;
};

}  // namespace poptorch::session
