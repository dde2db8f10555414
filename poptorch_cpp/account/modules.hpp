// Builds the rows of the model's modules and of the values that cross between IPUs.
#pragma once

#include "account/inspection.hpp"
#include "account/instructions.hpp"

namespace poptorch::account {

// Fills modules: one row a path, and one for the whole model (the empty path). Each row includes
// the modules below it.
void add_modules(const program::Program& program, const Instructions& instructions,
                 Strings& strings, Inspection& made);

// Fills crossings: one row a send.
void add_crossings(const Instructions& instructions, Inspection& made);

}  // namespace poptorch::account
