// Cross entropy of [n, classes] scores and its gradient: log-probabilities row by row, then the
// losses in row order. class_loss.hpp handles weights, smoothing and further dimensions.
#include "emulator/kernels/base/row_kernel.hpp"
#include "emulator/kernels/sets/loss/class_loss.hpp"
#include "emulator/kernels/sets/loss/softmax_columns.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/short_rows.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

struct ClassLoss {
  int64_t rows, classes, ignored;
  bool each, mean;  // the reduction, if it is not a sum
  std::string op;

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
  const auto& reduction = request.attr<std::string>("reduction");
  return ClassLoss{.rows = x[0],
                   .classes = x[1],
                   .ignored = request.attr<int64_t>("ignore_index"),
                   .each = reduction == "none",
                   .mean = reduction == "mean",
                   .op = request.op->name};
}

// Operands are scores (or log-probabilities), target and weight. The losses are summed in double.
template <bool softmax, typename X, typename Y>
class ForwardLoss final : public BoundKernel {
 public:
  explicit ForwardLoss(ClassLoss loss)
      : l_(std::move(loss)), parts_(parts_for(softmax ? l_.rows * l_.classes * 2 : 1, l_.rows)) {}
  int phases() const override { return softmax ? 2 : 1; }
  int tasks(int phase) const override {
    return softmax && phase == 0 ? static_cast<int>(parts_) : 1;
  }
  int64_t workspace_bytes() const override { return softmax ? 4 * l_.rows : 0; }
  int64_t scratch_bytes() const override { return block() * int64_t{sizeof(X) + sizeof(Y)}; }
  int64_t estimated_ns() const override { return l_.rows * l_.classes * 2; }
  void run(const KernelArgs& args, int phase, int task) const override {
    const X* x = input_of<X>(args, 0);
    const auto* target = input_of<int32_t>(args, 1);
    auto* chosen = reinterpret_cast<float*>(args.workspace);
    if constexpr (!softmax) {
      return finish(args, target,
                    [&](int64_t r) { return load_one(x + r * l_.classes + target[r]); });
    } else {
      if (phase == 1) return finish(args, target, [&](int64_t r) { return chosen[r]; });
      Y* log_probabilities = buffer_of<Y>(args, 4);
      const Range rows = part_of(l_.rows, parts_, task);
      if (is_short()) {
        return for_blocks_of_rows(rows.begin, rows.end, [&](int64_t first, int64_t count) {
          run_block(args, first, count, chosen);
        });
      }
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        const X* row = x + r * l_.classes;
        const auto log = log_softmax_row(row, log_probabilities + r * l_.classes, l_.classes);
        // The loss is not rounded before its end.
        if (l_.counts(target, r)) chosen[r] = log(load_one(row + target[r]));
      }
    }
  }

 private:
  bool is_short() const { return softmax && l_.classes <= kShortRow; }
  int64_t block() const { return is_short() ? l_.classes * kRowsAtOnce : 0; }

  // Computes the log-probabilities of short rows, and those of their targets without rounding.
  void run_block(const KernelArgs& args, int64_t first, int64_t count, float* chosen) const {
    const int64_t n = l_.classes;
    const X* x = input_of<X>(args, 0) + first * n;
    const auto* target = input_of<int32_t>(args, 1);
    X* held = reinterpret_cast<X*>(args.scratch);
    Y* made = reinterpret_cast<Y*>(args.scratch + block() * int64_t{sizeof(X)});
    float tops[kRowsAtOnce], shifts[kRowsAtOnce];
    const int64_t width = rows_to_columns(x, n, count, n, held);
    columns::LogSoftmax::find({n, kRowsAtOnce, width}, held, made, tops, shifts);
    columns_to_rows(made, buffer_of<Y>(args, 4) + first * n, n, count, n);
    for (int64_t r = 0; r < count; ++r) {
      if (!l_.counts(target, first + r)) continue;
      chosen[first + r] = (load_one(x + r * n + target[first + r]) - tops[r]) - shifts[r];
    }
  }

  // `chosen(row)` returns the log-probability of the row's target.
  template <typename F>
  void finish(const KernelArgs& args, const int32_t* target, F chosen) const {
    float* loss = buffer_of<float>(args, 3);
    double total = 0;
    for (int64_t r = 0; r < l_.rows; ++r) {
      const bool counts = l_.counts(target, r);
      const float one = counts ? -chosen(r) : 0.0f;
      if (l_.each) loss[r] = one;
      total += one;
    }
    if (l_.each) return;
    const auto count = static_cast<double>(l_.mean ? l_.counted(target) : 1);
    *loss = static_cast<float>(total / count);
  }
  ClassLoss l_;
  int64_t parts_;
};

// Operands are log-probabilities, target, weight and dloss. The rows of a mean share its divisor.
template <bool softmax, typename X, typename Y>
std::unique_ptr<BoundKernel> bind_plain_grad(const KernelRequest& request, const ClassLoss& l) {
  const bool each = l.each, mean = l.mean;
  BeforeRows count;
  if (mean) {
    count = [l](const KernelArgs& args) {
      auto* scale = reinterpret_cast<float*>(args.workspace);
      *scale =
          *input_of<float>(args, 3) / static_cast<float>(l.counted(input_of<int32_t>(args, 1)));
    };
  }
  // Rows with one divisor are computed together.
  auto gradient = [l, each, mean](const KernelArgs& args, int64_t first, int64_t rows) {
    const int32_t* target = input_of<int32_t>(args, 1) + first;
    Y* dx = buffer_of<Y>(args, 4) + first * l.classes;
    const float* dloss = input_of<float>(args, 3);
    const float scale =
        mean ? *reinterpret_cast<const float*>(args.workspace) : dloss[each ? first : 0];
    const X* y = input_of<X>(args, 0) + first * l.classes;
    auto part = [scale](auto log) { return vec::exp(log) * scale; };
    if (softmax) map_row(rows * l.classes, dx, part, y);
    if (!softmax) std::fill_n(dx, rows * l.classes, Y{});
    for (int64_t r = 0; r < rows; ++r, dx += l.classes, y += l.classes) {
      if (!l.counts(target, r)) {
        std::fill_n(dx, l.classes, Y{});
        continue;
      }
      const float even = softmax ? part(load_one(y + target[r])) : 0.0f;
      store_one(dx + target[r], even - scale);
    }
  };
  auto gradients = [each, gradient](const KernelArgs& args, int64_t first, int64_t end) {
    const int64_t together = each ? 1 : kRowsAtOnce;
    for (int64_t row = first; row < end; row += together) {
      gradient(args, row, std::min(together, end - row));
    }
  };
  return make_rows_kernel(request, l.rows, l.classes, gradients, count, 0);
}

template <bool softmax>
struct PlainLoss {
  // A cross-entropy writes the log-probabilities; the loss itself is a few numbers.
  static constexpr StoredBuffers kStored = {1, softmax ? 2 : 0};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    if (auto loss = plain_loss(request)) {
      return std::make_unique<ForwardLoss<softmax, X, Y>>(*loss);
    }
    if constexpr (kIsFloat<X>) return make_class_loss(request, softmax);
    return nullptr;
  }
};

template <bool softmax>
struct PlainLossGrad {
  static constexpr StoredBuffers kStored = {1, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    if (auto loss = plain_loss(request)) return bind_plain_grad<softmax, X, Y>(request, *loss);
    if constexpr (kIsFloat<X>) return make_class_loss_grad(request, softmax);
    return nullptr;
  }
};

}  // namespace

void add_loss_kernels(KernelTable& table) {
  table.add(
      {.op = "softmax_cross_entropy", .bind = bind_stored<PlainLoss<true>>, .reads_halves = true});
  table.add({.op = "nll_loss", .bind = bind_stored<PlainLoss<false>>, .reads_halves = true});
  table.add({.op = "softmax_cross_entropy_grad",
             .bind = bind_stored<PlainLossGrad<true>>,
             .takes_epilogue = true,
             .reads_halves = true});
  table.add({.op = "nll_loss_grad",
             .bind = bind_stored<PlainLossGrad<false>>,
             .takes_epilogue = true,
             .reads_halves = true});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
