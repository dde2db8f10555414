// Turns a program into an executable.
#pragma once

#include <memory>

#include "compile/compiled.hpp"
#include "session/executable.hpp"

namespace poptorch::session {

// Binds the program to this host.
std::unique_ptr<Executable> bind(compile::Compiled forms, const ir::Registry& registry,
                                 const HostOptions& options);

}  // namespace poptorch::session
