// The account of a program: what its IPUs hold, do and wait for in one run.
#pragma once

#include "program/program.hpp"
#include "session/session.hpp"

namespace poptorch::session {

Report make_report(const program::Program& program);
MemoryReport memory_of(const program::Program& program, int ipu);

}  // namespace poptorch::session
