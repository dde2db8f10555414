// What a program declares: the part of the verifier that looks at no instruction.
#pragma once

#include "program/program.hpp"

namespace poptorch::program {

// InternalError unless counts, sizes and groups are in range, names are unique and every tensor
// lies within what it names.
void verify_declared(const Program& program);

}  // namespace poptorch::program
