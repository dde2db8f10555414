// Computes forward values again in the backward pass instead of keeping them.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

// Makes each backward stage of a training pipeline compute again what it uses of its forward stage.
// It starts from the inputs of the forward stage and from values that are kept. Those are results
// of ops with effects or calls, of torch's own kernels, and of ops that read state which changes
// with each micro-batch, and values under `identity {checkpoint=true}`, which stand for its operand
// as well. The copy of a random op has
// the original as its forward op; the lowering gives it the same key, so it draws the same numbers.
// Needs assigned stages. Results are bit-identical. Does nothing without Execution::recompute: then
// every value waits in a stash.
// In the last stage, and without stages, the backward pass follows at once. It computes values
// again only with Execution::recompute_alone, from the checkpoints. Values after the last
// checkpoint are kept.
void recompute_forward(ir::Module& module);

}  // namespace poptorch::partition
