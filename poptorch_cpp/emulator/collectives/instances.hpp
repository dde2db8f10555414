// Checks the instances of a share against its fabric, and completes the share.
#pragma once

#include "emulator/bound/share.hpp"

namespace poptorch::emulator {

// Throws UserError unless the share is possible for `replicas` and its fabric, if any, joins the
// same instances.
void check_instances(const Share& share, int replicas);

// Fills in the properties of the share's fabric, if there is one, that the binder needs.
void note_fabric(Share& share);

}  // namespace poptorch::emulator
