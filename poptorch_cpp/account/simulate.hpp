// Models how long a run takes on the emulated IPUs.
#pragma once

#include <vector>

#include "account/walk.hpp"
#include "program/program.hpp"

namespace poptorch::account {

// Returns the modelled times of one run. An IPU executes its instructions in order; a receive ends
// no earlier than its send, a sync when all IPUs have reached it. Transfers on IO tiles run
// concurrently with that, one after the other. An input from the host starts when the previous one
// has been taken over, if the loop that it overlaps with allows that. An instruction that uses a
// loaded tensor waits for it. Loops of very many rounds are simulated until their rounds settle;
// where several of those are nested, waiting does not count.
Times simulate(const program::Program& program);

// Returns whether a transfer uses the reserved IO tiles, concurrently with the compute tiles.
bool on_io_tiles(const program::Instruction& instruction);
// Returns whether any transfer of a list does, also in its loops and branches.
bool uses_io_tiles(const std::vector<program::Instruction>& block);

// Returns the cycles of a list without waiting. A conditional counts its longer branch, since it is
// unknown which one runs.
int64_t cycles_of(const program::Instruction& instruction);
int64_t cycles_of(const std::vector<program::Instruction>& block);

}  // namespace poptorch::account
