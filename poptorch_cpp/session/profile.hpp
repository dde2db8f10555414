// The costs of a model's parts, before they are placed on IPUs.
#pragma once

#include <memory>

#include "account/profile.hpp"
#include "ir/module.hpp"

namespace poptorch::session {

// Compiles the traced form, whose ops do not name an IPU, without binding it: its tensors take up
// no memory.
account::Profile profile(std::unique_ptr<ir::Module> module);

}  // namespace poptorch::session
