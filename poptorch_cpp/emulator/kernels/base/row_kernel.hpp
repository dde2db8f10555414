// A kernel whose output 0 is computed row by row, independently; the fused chain follows each row.
#pragma once

#include <functional>

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {

// Runs once before the rows, and leaves at most 64 bytes for them in the workspace.
using BeforeRows = std::function<void(const KernelArgs&)>;
// Computes the rows [first, end).
using RowsFn = std::function<void(const KernelArgs&, int64_t first, int64_t end)>;

// `of_own_rows`: a row needs only its own row of operand 0, and the rows follow each other there.
std::unique_ptr<BoundKernel> make_rows_kernel(const KernelRequest& request, int64_t rows,
                                              int64_t row_ns, RowsFn compute, BeforeRows before,
                                              int64_t scratch, bool of_own_rows = false);

// `row(args, index)` computes one row of output 0 in about `row_ns` nanoseconds, after `before`. It
// has `scratch` bytes at args.scratch.
template <typename RowFn>
std::unique_ptr<BoundKernel> make_row_kernel(const KernelRequest& request, int64_t rows,
                                             int64_t row_ns, RowFn row, BeforeRows before = nullptr,
                                             int64_t scratch = 0) {
  auto compute = [row = std::move(row)](const KernelArgs& args, int64_t first, int64_t end) {
    for (int64_t index = first; index < end; ++index) row(args, index);
  };
  return make_rows_kernel(request, rows, row_ns, std::move(compute), std::move(before), scratch);
}

}  // namespace poptorch::emulator
