// Numbers pipeline stages: what runs together in one cycle of a pipeline, and in which order
// micro-batches pass.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

// Numbers the stages of main for a pipeline, and notes how many there are forward. Needs placed
// ops. A stage that an op names (its IPU when it names none) is a forward stage; neighbours, by
// number, on one IPU are merged. Of n forward stages, stage i keeps number i forward and has number
// 2(n-1) - i backward: the last one is forward and backward at once. Updates of weights are in no
// stage; without accumulation, ops marked as outside of it count as inside. Raises UserError for a
// stage on two IPUs, for data that flows from a later stage to an earlier one, and for fewer
// micro-batches than the pipeline has stages.
void assign_stages(ir::Module& module);

}  // namespace poptorch::partition
