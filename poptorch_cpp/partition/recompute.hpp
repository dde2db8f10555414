// Recomputation: a pipeline's backward stages compute forward values again instead of keeping them.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

// In a training pipeline, what a backward stage uses of its own forward stage is computed again in
// the backward stage, from what entered the forward stage and from what is kept: results of random
// ops, of ops with effects or calls, of torch's own kernels, of ops that read state which changes
// with each micro-batch, and values under `identity {checkpoint=true}`. Needs assigned stages. The
// last forward stage recomputes nothing: its backward pass follows at once. Keeps every bit. Does
// nothing when the execution says so: then every value waits in a stash.
void recompute_forward(ir::Module& module);

}  // namespace poptorch::partition
