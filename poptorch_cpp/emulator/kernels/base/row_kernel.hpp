// A kernel whose output 0 is computed row by row, independently; the fused chain follows each row.
#pragma once

#include <functional>

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {

// Runs once before the rows, and leaves at most 64 bytes for them in the workspace.
using BeforeRows = std::function<void(const KernelArgs&)>;

template <typename RowFn>
class RowKernel final : public BoundKernel {
 public:
  RowKernel(const KernelRequest& request, int64_t rows, int64_t row_ns, RowFn row,
            BeforeRows before, int64_t scratch)
      : rows_(rows),
        width_(request.outputs[0].elements() / std::max<int64_t>(rows, 1)),
        row_(std::move(row)),
        before_(std::move(before)),
        epilogue_(request),
        row_scratch_(round_up(scratch, 64)),
        ns_(rows * row_ns + epilogue_.estimated_ns(rows * width_)),
        parts_(parts_for(ns_, rows)) {}
  int phases() const override { return before_ ? 2 : 1; }
  int tasks(int phase) const override {
    return before_ && phase == 0 ? 1 : static_cast<int>(parts_);
  }
  int64_t workspace_bytes() const override { return before_ ? 64 : 0; }
  int64_t scratch_bytes() const override { return row_scratch_ + epilogue_.scratch_bytes(); }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int phase, int task) const override {
    if (before_ && phase == 0) return before_(args);
    const Range rows = part_of(rows_, parts_, task);
    const int64_t together = epilogue_ ? std::max<int64_t>(1, Epilogue::kTogether / width_) : rows_;
    for (int64_t first = rows.begin; first < rows.end; first += together) {
      const int64_t end = std::min(first + together, rows.end);
      for (int64_t row = first; row < end; ++row) row_(args, row);
      if (!epilogue_) continue;
      const int64_t made = (end - first) * width_;
      epilogue_.run(args, {.first = first * width_, .cols = made}, args.scratch + row_scratch_);
    }
  }

 private:
  int64_t rows_, width_;
  RowFn row_;
  BeforeRows before_;
  Epilogue epilogue_;
  int64_t row_scratch_;
  int64_t ns_, parts_;
};

// `row(args, index)` computes one row of output 0 in about `row_ns` nanoseconds, after `before`. It
// has `scratch` bytes at args.scratch.
template <typename RowFn>
std::unique_ptr<BoundKernel> make_row_kernel(const KernelRequest& request, int64_t rows,
                                             int64_t row_ns, RowFn row, BeforeRows before = nullptr,
                                             int64_t scratch = 0) {
  return std::make_unique<RowKernel<RowFn>>(request, rows, row_ns, std::move(row),
                                            std::move(before), scratch);
}

}  // namespace poptorch::emulator
