// The table of kernel rows, the attributes of requests, and kernels that take other buffers.
#include <algorithm>

#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"
#include "ir/op_def.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {

namespace {

class Rewired final : public BoundKernel {
 public:
  Rewired(std::unique_ptr<BoundKernel> kernel, std::vector<int> from)
      : kernel_(std::move(kernel)), from_(std::move(from)) {}
  int phases() const override { return kernel_->phases(); }
  int tasks(int phase) const override { return kernel_->tasks(phase); }
  int64_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::vector<int> prepared_operands() const override {
    std::vector<int> operands;
    for (int i : kernel_->prepared_operands()) {
      if (from_[i] >= 0) operands.push_back(from_[i]);
    }
    return operands;
  }
  int64_t estimated_ns() const override { return kernel_->estimated_ns(); }
  void run(const KernelArgs& args, int phase, int task) const override {
    std::byte* buffers[kMaxKernelBuffers];
    for (size_t i = 0; i < from_.size(); ++i) {
      buffers[i] = from_[i] < 0 ? nullptr : args.buffers[from_[i]];
    }
    KernelArgs inner = args;
    inner.buffers = buffers;
    kernel_->run(inner, phase, task);
  }

 private:
  std::unique_ptr<BoundKernel> kernel_;
  std::vector<int> from_;
};

}  // namespace

std::unique_ptr<BoundKernel> rewire(std::unique_ptr<BoundKernel> kernel, std::vector<int> from) {
  bool same = from.size() <= kMaxKernelBuffers;
  if (!same) throw support::InternalError("[kernels] an op has too many buffers.");
  for (size_t i = 0; i < from.size(); ++i) same &= from[i] == static_cast<int>(i);
  if (same) return kernel;
  return std::make_unique<Rewired>(std::move(kernel), std::move(from));
}

void BoundKernel::run_parts(const KernelArgs&, int64_t, int64_t, int64_t) const {
  throw support::InternalError("[kernels] a kernel was divided that does not divide into parts.");
}

ir::Shape KernelRequest::strides_of(size_t input) const {
  if (input < input_strides.size() && !input_strides[input].empty()) return input_strides[input];
  return ir::row_major_strides(inputs[input]->shape);
}

bool KernelRequest::has_strides() const {
  return std::ranges::any_of(input_strides, [](const ir::Shape& s) { return !s.empty(); });
}

const ir::Attr& KernelRequest::attr_value(ir::Symbol name) const {
  const ir::Attr* given = attrs.find(name);
  return given ? *given : *op->find_attr(name)->default_value;
}

void KernelTable::add(KernelRow row) {
  const std::string op = row.op;
  if (!rows_.emplace(op, std::move(row)).second) {
    throw support::InternalError("[kernels] op '" + op + "' has two kernel rows. Remove one.");
  }
}

const KernelRow* KernelTable::find(const std::string& op) const {
  auto found = rows_.find(op);
  return found == rows_.end() ? nullptr : &found->second;
}

const KernelTable& all_kernels() {
  static const KernelTable table = [] {
    KernelTable all;
    add_elementwise_kernels(all);
    add_matmul_kernels(all);
    add_conv_kernels(all);
    add_random_kernels(all);
    add_move_kernels(all);
    add_embedding_kernels(all);
    add_index_kernels(all);
    add_point_kernels(all);
    add_pad_kernels(all);
    kernel_set().add_kernels(all);
    return all;
  }();
  return table;
}

}  // namespace poptorch::emulator
