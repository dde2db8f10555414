// A kernel that consists of a chain, and of a kernel that takes what the chain makes in runs: the
// sum of a tensor that need not be stored. The kernel's tasks are those of the reader, in which the
// chain makes each element once.
#pragma once

#include "emulator/kernels/base/joined_rows.hpp"

namespace poptorch::emulator {

// The chain makes `elements` elements of `element_bytes`. In the chain and in the reader, they are
// held value 0 (`~0` in RowsPart::buffers), or a buffer of both.
std::unique_ptr<BoundKernel> take_runs_of(RowsPart chain, RowsPart reader, int64_t elements,
                                          int64_t element_bytes);

}  // namespace poptorch::emulator
