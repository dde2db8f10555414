// Walks all IPUs of a program through one run, in modelled time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "account/rounds.hpp"
#include "program/program.hpp"

namespace poptorch::account {

// An instruction that takes time on an IPU, or the rounds that a walk leaves out of a loop.
struct Event {
  const program::Instruction* instruction = nullptr;
  int ipu = 0;
  bool io_tiles = false;
  int64_t start = 0, cycles = 0;
  int64_t micro_batch = 0;  // of a run
  int64_t rounds = 1;       // of a kLoop: those that the walk leaves out
};
using Observer = std::function<void(const Event&)>;

// The cycles of an IPU that waits while others of its pipeline transfer.
struct Waits {
  int64_t host = 0, links = 0;

  bool operator==(const Waits&) const = default;
};

struct Times {
  int64_t cycles = 0;             // until the last IPU is done
  std::vector<Waits> waits = {};  // by IPU

  bool operator==(const Times&) const = default;
};

// Returns the times of a run. Loops and branches without events are taken as a
// whole. An observer receives each instruction that takes any cycles, in the order of its IPU's
// compute tiles or IO tiles, including those in loops. Transfers that
// the end of a pipeline's cycle carries follow the other work of the cycle. Rounds that `walked`
// leaves out of a loop are then one event before the next instruction, each as long as the last
// round walked. Without an observer they take no time.
Times walk(const program::Program& program, const Rounds& walked, const Observer& observer = {});

}  // namespace poptorch::account
