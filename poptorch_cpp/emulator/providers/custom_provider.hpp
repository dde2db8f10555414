// The kernels of custom ops: the provider of the op `custom`, which finds them in
// ops/custom_ops.hpp.
#pragma once

#include "emulator/providers/foreign.hpp"

namespace poptorch::emulator {

const PoptorchForeignProvider& custom_provider();

// Whether this thread runs a custom op of a program: what waits for that program then would wait
// for ever.
bool inside_custom_op();

}  // namespace poptorch::emulator
