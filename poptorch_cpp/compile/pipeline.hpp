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

// The IR stages between the traced module and the program.
struct Stages {
  std::unique_ptr<ir::Module> normal, differentiated, placed;
};

// Runs the passes on a traced module again, without logging. Requires `disabled_passes`, and
// returns the stages as they were: keeping them would take most of the memory of a compiled model.
Stages stages_of(const Compiled& compiled);

}  // namespace poptorch::compile
