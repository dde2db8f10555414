// The account of a program: memory by IPU, cycles of one run.
#pragma once

#include "program/program.hpp"
#include "session/session.hpp"

namespace poptorch::session {

// Cycles follow the program: an IPU does its instructions in order, a receive ends no earlier than
// its send, a sync when all have come.
Report make_report(const program::Program& program);

}  // namespace poptorch::session
