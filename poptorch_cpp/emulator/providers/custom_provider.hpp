// The kernels of custom ops: the provider of the op `custom`, which finds them in
// ops/custom_ops.hpp.
#pragma once

#include "emulator/providers/foreign.hpp"

namespace poptorch::emulator {

const PoptorchForeignProvider& custom_provider();

// Returns whether this thread runs a custom op of a program. It must not wait for that program
// then: the wait would never end.
bool inside_custom_op();

}  // namespace poptorch::emulator
