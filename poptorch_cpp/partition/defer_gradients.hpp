// Runs ops of the backward pass in the stage that uses their results, if that keeps fewer bytes.
#pragma once

namespace poptorch::ir {
class Graph;
struct Execution;
}  // namespace poptorch::ir

namespace poptorch::partition {

// Moves ops of a training pipeline to a later stage of the same IPU. The gradient of a weight that
// the first and the last stage use is a sum of two products. The first product would wait in a
// stash for the second one; its operands are smaller. Only pure ops are moved, so results are
// bit-identical. Needs assigned stages.
void defer_gradients(ir::Graph& main, const ir::Execution& execution);

}  // namespace poptorch::partition
