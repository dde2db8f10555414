// Which loops of a program a walk enters, and for how many rounds.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "program/program.hpp"

namespace poptorch::account {

// Maps a loop to the number of its rounds that are walked; all other loops are walked whole.
using Rounds = std::unordered_map<const program::Instruction*, int64_t>;  // look-up only

// Which loops a walk enters: those with events, or, with an observer, all.
enum class Loops : uint8_t { kWithEvents, kAll };

// Returns how many instructions a walk visits if no loop runs for more than `most` rounds.
int64_t steps_of(const program::Program& program, int64_t most, Loops loops);

// Returns loops of more than `most` rounds that a walk enters, the shortest first. Of the loops
// with events in a block, it omits those with less than half the rounds of the longest: the ramps
// of a pipeline, whose rounds IPUs divide in different ways.
std::vector<const program::Instruction*> long_loops(const program::Program& program, int64_t most,
                                                    Loops loops);

// Returns whether a loop or branch waits for other IPUs, lets them wait, or transfers on IO tiles.
bool has_events(const program::Instruction& instruction);

// Returns the branch to take if it has no events: the longer, since it is unknown which one runs.
size_t longer_branch(const program::Instruction& conditional);

}  // namespace poptorch::account
