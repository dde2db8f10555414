// The compiler as a list of steps, and the IR stages between them.
#pragma once

#include <memory>
#include <string>

#include "compile/compiled.hpp"

namespace poptorch::compile {

// Returns the number of progress steps: those of the pipeline under the module's strategy, and
// binding.
int compile_steps(const ir::Module& module);

// Compiles a traced module into a program. Calls `progress` for every step but binding, which the
// caller does.
Compiled compile_to_program(std::unique_ptr<ir::Module> module, const HostOptions& options,
                            const Progress& progress);

}  // namespace poptorch::compile
