#include "emulator/kernels/base/row_kernel.hpp"

namespace poptorch::emulator {
namespace {

class RowKernel final : public BoundKernel {
 public:
  RowKernel(const KernelRequest& request, int64_t rows, int64_t row_ns, RowsFn compute,
            BeforeRows before, int64_t scratch, bool of_own_rows)
      : rows_(rows),
        width_(request.outputs[0].elements() / std::max<int64_t>(rows, 1)),
        compute_(std::move(compute)),
        before_(std::move(before)),
        epilogue_(request),
        of_own_rows_(of_own_rows),
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
    run_rows(args, part_of(rows_, parts_, task));
  }
  bool divides_into(int64_t parts) const override {
    return of_own_rows_ && !before_ && !epilogue_ && rows_ % parts == 0;
  }
  void run_parts(const KernelArgs& args, int64_t begin, int64_t end, int64_t of) const override {
    run_rows(args, {rows_ / of * begin, rows_ / of * end});
  }

 private:
  void run_rows(const KernelArgs& args, Range rows) const {
    const int64_t together = epilogue_ ? std::max<int64_t>(1, Epilogue::kTogether / width_) : rows_;
    for (int64_t first = rows.begin; first < rows.end; first += together) {
      const int64_t end = std::min(first + together, rows.end);
      compute_(args, first, end);
      if (!epilogue_) continue;
      const int64_t made = (end - first) * width_;
      epilogue_.run(args, {.first = first * width_, .cols = made}, args.scratch + row_scratch_);
    }
  }

  int64_t rows_, width_;
  RowsFn compute_;
  BeforeRows before_;
  Epilogue epilogue_;
  bool of_own_rows_;
  int64_t row_scratch_;
  int64_t ns_, parts_;
};

}  // namespace

std::unique_ptr<BoundKernel> make_rows_kernel(const KernelRequest& request, int64_t rows,
                                              int64_t row_ns, RowsFn compute, BeforeRows before,
                                              int64_t scratch, bool of_own_rows) {
  return std::make_unique<RowKernel>(request, rows, row_ns, std::move(compute), std::move(before),
                                     scratch, of_own_rows);
}

}  // namespace poptorch::emulator
