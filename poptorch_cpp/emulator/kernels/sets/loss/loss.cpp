// Cross entropy of [n, classes] scores and its gradient: log-probabilities row by row, then the
// losses in row order. class_loss.hpp handles weights, smoothing and further dimensions.
#include "emulator/kernels/base/row_kernel.hpp"
#include "emulator/kernels/sets/loss/class_loss.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/lanes.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

struct ClassLoss {
  int64_t rows, classes, ignored;
  std::string reduction, op;

  // Throws UserError for a target that is not a class.
  bool counts(const int32_t* target, int64_t row) const {
    const int32_t t = target[row];
    if (t == ignored) return false;
    check_target(op, t, classes);
    return true;
  }
  int64_t counted(const int32_t* target) const {
    int64_t count = 0;
    for (int64_t r = 0; r < rows; ++r) count += counts(target, r);
    return count;
  }
};

std::optional<ClassLoss> plain_loss(const KernelRequest& request) {
  const ir::Shape& x = request.inputs[0]->shape;
  const bool smooth =
      request.op->find_attr("label_smoothing") && request.attr<double>("label_smoothing") != 0.0;
  if (x.size() != 2 || x[0] == 0 || x[1] == 0 || smooth || request.inputs[2]) return std::nullopt;
  return ClassLoss{x[0], x[1], request.attr<int64_t>("ignore_index"),
                   request.attr<std::string>("reduction"), request.op->name};
}

// Operands are scores (or log-probabilities), target and weight. The losses are summed in double.
class ForwardLoss final : public BoundKernel {
 public:
  ForwardLoss(ClassLoss loss, bool softmax)
      : l_(std::move(loss)),
        softmax_(softmax),
        parts_(parts_for(softmax ? l_.rows * l_.classes * 2 : 1, l_.rows)) {}
  int phases() const override { return softmax_ ? 2 : 1; }
  int tasks(int phase) const override {
    return softmax_ && phase == 0 ? static_cast<int>(parts_) : 1;
  }
  int64_t estimated_ns() const override { return l_.rows * l_.classes * 2; }
  void run(const KernelArgs& args, int phase, int task) const override {
    if (!softmax_) return finish(args, input_of<float>(args, 0));
    float* log_probabilities = buffer_of<float>(args, 4);
    if (phase == 1) return finish(args, log_probabilities);
    const Range rows = part_of(l_.rows, parts_, task);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      log_softmax_row(input_of<float>(args, 0) + r * l_.classes, log_probabilities + r * l_.classes,
                      l_.classes);
    }
  }

 private:
  void finish(const KernelArgs& args, const float* log_probabilities) const {
    const int32_t* target = input_of<int32_t>(args, 1);
    float* loss = buffer_of<float>(args, 3);
    double total = 0;
    for (int64_t r = 0; r < l_.rows; ++r) {
      const bool counts = l_.counts(target, r);
      const float one = counts ? -log_probabilities[r * l_.classes + target[r]] : 0.0f;
      if (l_.reduction == "none") loss[r] = one;
      total += one;
    }
    if (l_.reduction == "none") return;
    const auto count = static_cast<double>(l_.reduction == "mean" ? l_.counted(target) : 1);
    *loss = static_cast<float>(total / count);
  }
  ClassLoss l_;
  bool softmax_;
  int64_t parts_;
};

// Operands are log-probabilities, target, weight and dloss. The rows of a mean share its divisor.
std::unique_ptr<BoundKernel> bind_grad(const KernelRequest& request, bool softmax) {
  auto loss = plain_loss(request);
  if (!loss) return make_class_loss_grad(request, softmax);
  const ClassLoss l = *loss;
  const bool each = l.reduction == "none", mean = l.reduction == "mean";
  BeforeRows count;
  if (mean) {
    count = [l](const KernelArgs& args) {
      auto* scale = reinterpret_cast<float*>(args.workspace);
      *scale =
          *input_of<float>(args, 3) / static_cast<float>(l.counted(input_of<int32_t>(args, 1)));
    };
  }
  auto gradient = [l, softmax, each, mean](const KernelArgs& args, int64_t row) {
    const int32_t* target = input_of<int32_t>(args, 1);
    float* dx = buffer_of<float>(args, 4) + row * l.classes;
    if (!softmax || !l.counts(target, row)) std::fill_n(dx, l.classes, 0.0f);
    if (!l.counts(target, row)) return;
    const float* dloss = input_of<float>(args, 3);
    const float scale =
        mean ? *reinterpret_cast<const float*>(args.workspace) : dloss[each ? row : 0];
    const float* y = input_of<float>(args, 0) + row * l.classes;
    if (softmax) {
#pragma GCC ivdep
      for (int64_t i = 0; i < l.classes; ++i) dx[i] = vec::exp(y[i]) * scale;
    }
    dx[target[row]] -= scale;
  };
  return make_row_kernel(request, l.rows, l.classes, gradient, count);
}

template <bool softmax>
std::unique_ptr<BoundKernel> bind_forward(const KernelRequest& request) {
  auto loss = plain_loss(request);
  if (!loss) return make_class_loss(request, softmax);
  return std::make_unique<ForwardLoss>(*loss, softmax);
}
template <bool softmax>
std::unique_ptr<BoundKernel> bind_backward(const KernelRequest& request) {
  return bind_grad(request, softmax);
}

}  // namespace

void add_loss_kernels(KernelTable& table) {
  table.add({.op = "softmax_cross_entropy", .bind = bind_floats<bind_forward<true>>});
  table.add({.op = "nll_loss", .bind = bind_floats<bind_forward<false>>});
  table.add({.op = "softmax_cross_entropy_grad",
             .bind = bind_floats<bind_backward<true>>,
             .takes_epilogue = true});
  table.add(
      {.op = "nll_loss_grad", .bind = bind_floats<bind_backward<false>>, .takes_epilogue = true});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
