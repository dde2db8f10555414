// Reads rows of a table, and computes the gradient, which adds rows to it. A task owns a range of
// the table's rows and processes the indices in order.
#include <cstring>

#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/support.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

int64_t checked(const char* op, int32_t index, int64_t rows) {
  if (index >= 0 && index < rows) return index;
  throw support::UserError(support::str("[", op, "] index ", index, " is outside a table of ", rows,
                                        " rows. Check the indices, or enlarge the table."));
}

class PickedRows final : public BoundKernel {
 public:
  explicit PickedRows(const KernelRequest& request)
      : rows_(request.inputs[0]->shape[0]),
        row_bytes_(request.inputs[0]->bytes() / std::max<int64_t>(rows_, 1)),
        count_(request.inputs[1]->elements()),
        parts_(parts_for(count_ * (20 + row_bytes_ / 16), count_)) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return count_ * (20 + row_bytes_ / 16); }
  void run(const KernelArgs& args, int, int task) const override {
    const int32_t* indices = input_of<int32_t>(args, 1);
    const Range range = part_of(count_, parts_, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      std::memcpy(args.buffers[2] + i * row_bytes_,
                  args.buffers[0] + checked("embedding", indices[i], rows_) * row_bytes_,
                  row_bytes_);
    }
  }

 private:
  int64_t rows_, row_bytes_, count_, parts_;
};

class AddBack final : public BoundKernel {
 public:
  explicit AddBack(const KernelRequest& request)
      : rows_(request.outputs[0].shape[0]),
        width_(request.outputs[0].elements() / rows_),
        count_(request.inputs[1]->elements()),
        padding_(request.attr<int64_t>("padding_index")),
        epilogue_(request) {
    ns_ = rows_ * width_ / 8 + count_ * width_ / 4 + epilogue_.estimated_ns(rows_ * width_);
    parts_ = std::min<int64_t>(parts_for(ns_, rows_), 16);
    block_ = std::clamp<int64_t>(8192 / width_, 1, rows_);
  }
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t scratch_bytes() const override { return epilogue_.scratch_bytes(); }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range range = part_of(rows_, parts_, task);
    const float* dy = input_of<float>(args, 0);
    const int32_t* indices = input_of<int32_t>(args, 1);
    float* dw = buffer_of<float>(args, 2);
    std::fill_n(dw + range.begin * width_, range.size() * width_, 0.0f);
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t row = checked("embedding", indices[i], rows_);
      if (row < range.begin || row >= range.end || row == padding_) continue;
      float* to = dw + row * width_;
      const float* from = dy + i * width_;
#pragma GCC ivdep
      for (int64_t k = 0; k < width_; ++k) to[k] += from[k];
    }
    for (int64_t r = range.begin; epilogue_ && r < range.end; r += block_) {
      const int64_t rows = std::min(block_, range.end - r);
      epilogue_.run(args, {.first = r * width_, .cols = rows * width_}, args.scratch);
    }
  }

 private:
  int64_t rows_, width_, count_, padding_;
  Epilogue epilogue_;
  int64_t ns_, parts_, block_;
};

std::unique_ptr<BoundKernel> bind_pick(const KernelRequest& request) {
  return std::make_unique<PickedRows>(request);
}
std::unique_ptr<BoundKernel> bind_add_back(const KernelRequest& request) {
  if (request.outputs[0].elements() == 0) return nullptr;
  return std::make_unique<AddBack>(request);
}

}  // namespace

void add_embedding_kernels(KernelTable& table) {
  table.add({.op = "embedding", .bind = bind_pick});
  table.add({.op = "embedding_grad", .bind = bind_floats<bind_add_back>, .takes_epilogue = true});
}

}  // namespace poptorch::emulator
