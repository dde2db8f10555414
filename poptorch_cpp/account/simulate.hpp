// How long a run takes on the emulated IPUs.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace poptorch::account {

// Modelled cycles of one run: an IPU does its instructions in order, a receive ends no earlier than
// its send, a sync when all have come. Transfers on IO tiles go on beside that, one after the
// other: an input from the host as soon as the one before has been taken over, where the loop that
// it overlaps with allows; what uses a loaded tensor waits for it. Loops of very many rounds are
// followed for as long as they settle; where several of those are nested, waiting does not count.
int64_t simulate(const program::Program& program);

// Of a transfer: through the tiles that are set apart for it, beside what the others compute.
bool on_io_tiles(const program::Instruction& instruction);

// Cycles of a list without waiting; of a conditional the longer branch, since which runs is not
// known.
int64_t cycles_of(const program::Instruction& instruction);
int64_t cycles_of(const std::vector<program::Instruction>& block);

}  // namespace poptorch::account
