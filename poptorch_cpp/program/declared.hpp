// The part of the verifier that checks a program's declarations, without its instructions.
#pragma once

#include "program/program.hpp"

namespace poptorch::program {

// Throws InternalError unless counts, sizes and groups are in range, names are unique and every
// tensor lies within the memory it names.
void verify_declared(const Program& program);

}  // namespace poptorch::program
