// The cycles and temporary data of an op by its shapes and types. It is part of the cost model and
// does not change values.
#pragma once

#include "program/program.hpp"
#include "target/device.hpp"

namespace poptorch::program {

// The row's own estimate of an op's work, which ops without a model by shape use.
struct RowWork {
  double flops = 0;
  bool matrix_unit = false;
  double steps = 1, row = 0;  // as in ir::Cost
};

struct OpCost {
  target::Terms terms;
  int64_t temporary_bytes = 0;  // at a time, beside operands and results
  int64_t steps = 1;            // one after the other
};

// Returns the cost of a kCompute that is not a collective.
OpCost op_cost(const Program& program, const Instruction& instruction, const RowWork& row);

// Returns the terms of an instruction whose cycles are known. Cycles that the shapes do not explain
// count as arithmetic.
target::Terms known_terms(const Program& program, const Instruction& instruction);

// Returns the cycles of copying a tensor within its tiles.
int64_t copy_cycles(const Program& program, const Type& type);

}  // namespace poptorch::program
