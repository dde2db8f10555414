// Walks all IPUs of a program through one run, in modelled time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "program/program.hpp"

namespace poptorch::account {

// Maps a loop's number of rounds to the number that is walked; all other loops are walked whole.
using Rounds = std::map<int64_t, int64_t>;

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

// Returns the cycles until the last IPU is done. Loops and branches without events are taken as a
// whole. An observer receives each instruction that takes any cycles, in the order of its IPU's
// compute tiles or IO tiles, including those in loops. Rounds that `walked` leaves out of a loop
// are then one event before the next instruction, each as long as the last round walked. Without an
// observer they take no time.
int64_t walk(const program::Program& program, const Rounds& walked, const Observer& observer = {});

// Which loops a walk enters: those with events, or, with an observer, all.
enum class Loops : uint8_t { kWithEvents, kAll };

// Returns how many instructions a walk visits if no loop runs for more than `most` rounds.
int64_t steps_of(const program::Program& program, int64_t most, Loops loops);

// Returns the round counts above `most` of the loops that a walk enters.
std::set<int64_t> long_loops(const program::Program& program, int64_t most, Loops loops);

// Returns whether a loop or branch waits for other IPUs, lets them wait, or transfers on IO tiles.
bool has_events(const program::Instruction& instruction);

// Returns the branch to take if it has no events: the longer, since it is unknown which one runs.
size_t longer_branch(const program::Instruction& conditional);

}  // namespace poptorch::account
