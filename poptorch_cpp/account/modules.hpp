// Rows of the model's modules and of what crosses between IPUs.
#pragma once

#include "account/inspection.hpp"
#include "account/instructions.hpp"

namespace poptorch::account {

// Fills modules: a row a path and one for all, the empty path, each with what is below it.
void add_modules(const program::Program& program, const Instructions& instructions,
                 Strings& strings, Inspection& made);

// Fills crossings: a row a send.
void add_crossings(const Instructions& instructions, Inspection& made);

}  // namespace poptorch::account
