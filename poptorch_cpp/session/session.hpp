// Compiles or loads models: the façade that both front ends use.
#pragma once

#include <memory>
#include <string_view>

#include "session/executable.hpp"

namespace poptorch::session {

// Compiles the traced form to an executable. Consumes `module`.
std::unique_ptr<Executable> compile(std::unique_ptr<ir::Module> module,
                                    const HostOptions& options = {}, const Progress& progress = {});

// Loads a printed program, which has all that a run needs except the values of its state. These
// begin as the program says or at 0. UserError for a text that is not a program.
std::unique_ptr<Executable> load(std::string_view program, const ir::Registry& registry,
                                 const HostOptions& options = {});

}  // namespace poptorch::session
