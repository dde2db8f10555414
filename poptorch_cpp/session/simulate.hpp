// How long a run takes on the emulated IPUs.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace poptorch::session {

// Modelled cycles of one run: an IPU does its instructions in order, a receive ends no earlier than
// its send, a sync when all have come.
int64_t simulate(const program::Program& program);

// Cycles of a list without waiting; of a conditional the longer branch, since which runs is not
// known.
int64_t cycles_of(const std::vector<program::Instruction>& block);

}  // namespace poptorch::session
