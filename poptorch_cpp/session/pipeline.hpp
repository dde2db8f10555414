// The compiler as a list of steps, and the forms that it went through.
#pragma once

#include <memory>
#include <string>

#include "program/program.hpp"
#include "session/session.hpp"

namespace poptorch::session {

// Steps of the progress: those of the pipeline under the module's strategy, and binding.
int compile_steps(const ir::Module& module);

// Each IR form as it was (a clone: printing waits until someone asks), and the program.
struct Compiled {
  std::unique_ptr<ir::Module> traced, normal, differentiated, placed;
  program::Program program;
};

// "The highest of a replica is IPU 2, of op 'linear' of block 'c' (model.py:4)."; of a module on
// IPU 0 alone, nothing.
std::string highest_ipu(const ir::Module& placed);

// Traced form → program. Calls `progress` for every step but binding, which is the caller's.
Compiled compile_to_program(std::unique_ptr<ir::Module> module, const HostOptions& options,
                            const Progress& progress);

}  // namespace poptorch::session
