// Compile, or load, and run: the façade that both front ends use.
#pragma once

#include <memory>
#include <string_view>

#include "session/executable.hpp"

namespace poptorch::session {

// Takes the traced form and compiles it all the way. `module` is consumed.
std::unique_ptr<Executable> compile(std::unique_ptr<ir::Module> module,
                                    const HostOptions& options = {}, const Progress& progress = {});

// Runs a program that was printed before: it says all that a run needs but the values of its state,
// which begin as the program says or at 0. UserError for a text that is no program.
std::unique_ptr<Executable> load(std::string_view program, const ir::Registry& registry,
                                 const HostOptions& options = {});

}  // namespace poptorch::session
