// The compiler as a list of steps, and the forms that it went through.
#pragma once

#include <memory>
#include <string>

#include "compile/compiled.hpp"

namespace poptorch::compile {

// Steps of the progress: those of the pipeline under the module's strategy, and binding.
int compile_steps(const ir::Module& module);

// Traced form → program. Calls `progress` for every step but binding, which is the caller's.
Compiled compile_to_program(std::unique_ptr<ir::Module> module, const HostOptions& options,
                            const Progress& progress);

}  // namespace poptorch::compile
