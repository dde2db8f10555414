// A shorter program that takes the same time.
#pragma once

#include "program/program.hpp"

namespace poptorch::account {

// Returns only the lists of instructions. Between events, all work of an IPU is one instruction.
// The program must not have transfers on IO tiles, which wait for single operands.
program::Program condensed(const program::Program& program);

}  // namespace poptorch::account
