// The work of an op on single elements, by its name.
#pragma once

#include "program/program.hpp"

namespace poptorch::program {

// Cycles of a tile for an element.
struct ElementWork {
  double planned = 0;   // once all workers are busy, as Graphcore's libraries assume; 0: unknown
  double measured = 0;  // from a microbenchmark
  bool all_measured = false;  // the microbenchmark counts all work
  int reductions = 0;         // over all tiles, one after the other
};

// Returns the work of an element of 2 bytes (`half`) or 4 bytes.
ElementWork element_work(const Instruction& instruction, bool half);

}  // namespace poptorch::program
