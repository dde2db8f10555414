// A kernel that consists of kernels which divide into the same rows. It runs all of them on a block
// of rows, then on the next block. Values that only they use are held in scratch, a block at a
// time, and stay in the cache.
#pragma once

#include <memory>
#include <vector>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

struct RowsPart {
  std::shared_ptr<const BoundKernel> kernel = nullptr;
  std::vector<int> buffers = {};  // numbers in KernelArgs; ~i: held value i
};

// `held_bytes` are those of a row of each held value.
std::unique_ptr<BoundKernel> join_rows_of(int64_t rows, std::vector<RowsPart> parts,
                                          const std::vector<int64_t>& held_bytes);

}  // namespace poptorch::emulator
