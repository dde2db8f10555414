// Logs an Executor's actions in the same words as Python's wrappers.
#pragma once

#include <cstdint>
#include <string>

#include "ir/execution.hpp"

namespace poptorch::telling {

// Logs the options of a compilation that differ from their defaults.
void options(const ir::Execution& execution);
void weights_to_device();
void weights_to_host();
void named_buffers_to_device();
void setting_random_state(uint64_t seed);
void reading_random_state();
void block(const std::string& id, int stage, int phase, int ipu);

}  // namespace poptorch::telling
