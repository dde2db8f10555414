// The walk of all IPUs of a program through one run, in modelled time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "program/program.hpp"

namespace poptorch::account {

// Of loops with so many rounds (first), how many are walked (second); of others, all.
using Rounds = std::map<int64_t, int64_t>;

// What takes time on an IPU: an instruction, or what a walk leaves out of a loop.
struct Event {
  const program::Instruction* instruction = nullptr;
  int ipu = 0;
  bool io_tiles = false;
  int64_t start = 0, cycles = 0;
  int64_t micro_batch = 0;  // of a run
  int64_t rounds = 1;       // of a kLoop: those that the walk leaves out
};
using Observer = std::function<void(const Event&)>;

// Cycles until the last IPU is done. Loops and branches in which nobody waits for another are taken
// as a whole. An observer is told each instruction that takes any cycles, in the order of its IPU's
// compute tiles or IO tiles, those of all loops too. What `walked` leaves out of a loop then is an
// event that takes as long as so many of the last round, and what follows comes after it; without
// an observer it is nothing.
int64_t walk(const program::Program& program, const Rounds& walked, const Observer& observer = {});

// Whether an observer of the walk is there, which looks into every loop.
enum class Loops : uint8_t { kWithEvents, kAll };

// How many instructions a walk meets when no loop goes on for more than `most` rounds.
int64_t steps_of(const program::Program& program, int64_t most, Loops loops);

// The rounds of those loops that a walk enters and that have more than `most`.
std::set<int64_t> long_loops(const program::Program& program, int64_t most, Loops loops);

// Whether somebody waits for another in a loop or branch, or transfers on IO tiles.
bool has_events(const program::Instruction& instruction);

// The branch that is taken where nobody waits for another in it: the longer, since which runs is
// not known.
size_t longer_branch(const program::Instruction& conditional);

}  // namespace poptorch::account
