// Costs of ops that compute in steps: each step needs what other tiles computed in the one before.
#pragma once

#include "ops/rules.hpp"

namespace poptorch::ops {

// Returns the number of steps in which all of `length` elements are combined with those before
// them: distances double from step to step.
double scan_steps(double length);
// Returns the number of steps of a bitonic sort.
double sort_steps(double length);
// Adds the steps along the op's `axis` to the cost of operand 0. A tile that has all elements of
// the axis takes a single step.
CostRule along_axis(CostRule rule, double (*steps)(double length));
// Returns the steps of an ATen op without a row, by the shape of its first operand.
double generic_steps(const Op& op);

}  // namespace poptorch::ops
