// Whether the instances of a program begin with the same state.
#pragma once

#include "emulator/engine.hpp"

namespace poptorch::session {

// Before the first run, by all instances that a fabric joins. Warns of another random seed, and of
// state that all replicas share but that begins with other values: replicas would go apart, and
// nothing else shows it. UserError as Engine::exchange().
void compare_beginnings(emulator::Engine& engine);

}  // namespace poptorch::session
