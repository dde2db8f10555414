// The instances that a share and its fabric know of.
#pragma once

#include "emulator/bound/share.hpp"

namespace poptorch::emulator {

// UserError unless the share is possible for `replicas`, and its fabric, if any, joins the same
// instances.
void check_instances(const Share& share, int replicas);

// Fills in what the binder wants to know of the share's fabric, if there is one.
void note_fabric(Share& share);

}  // namespace poptorch::emulator
