// What the parts of a model cost, before anything says where they run.
#pragma once

#include <memory>

#include "account/profile.hpp"
#include "ir/module.hpp"

namespace poptorch::session {

// Compiles the traced form, whose ops name no IPU, without binding it: no memory is taken for its
// tensors.
account::Profile profile(std::unique_ptr<ir::Module> module);

}  // namespace poptorch::session
