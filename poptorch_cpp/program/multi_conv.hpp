// Convolutions of a poptorch.MultiConv with a parallel plan share the tiles of an IPU.
#pragma once

#include "program/program.hpp"

namespace poptorch::program {

// Divides the tiles among the convolutions of each group, and sets their cycles: those of the
// slowest belong to its instruction, and the others run beside it. The search begins with the time
// of the slowest on all tiles, longer by `cycle_back_off`. It allows more time until the
// convolutions fit, each on as few tiles as that takes but at least `reserved_tiles`. Groups with
// more convolutions than tiles run one after the other.
void plan_multi_convs(Program& program);

}  // namespace poptorch::program
