#include "emulator/kernels/sets/loss/class_loss.hpp"

#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/base/row_kernel.hpp"
#include "emulator/kernels/sets/loss/softmax_columns.hpp"
#include "emulator/kernels/simd/vector_math.hpp"
#include "ir/op_def.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

constexpr int64_t kClassBlock = 64;  // places at a time

// The operands are scores [outer, classes, inner] and targets [outer, inner]. The label of class k
// at a place whose target is t is (k == t ? sharp : 0) + smooth, times the weight of the class.
struct Scores {
  int64_t outer, classes, inner, ignored;
  double sharp = 1, smooth = 0;
  std::string reduction, op;

  explicit Scores(const KernelRequest& request)
      : ignored(request.attr<int64_t>("ignore_index")),
        reduction(request.attr<std::string>("reduction")),
        op(request.op->name) {
    const ir::Shape& x = request.inputs[0]->shape;
    const int64_t axis = x.size() == 1 ? 0 : 1;
    const Lines lines(x, axis, axis);
    outer = lines.outer, classes = lines.size, inner = lines.inner;
    if (!request.op->find_attr("label_smoothing")) return;
    const double smoothing = request.attr<double>("label_smoothing");
    sharp = 1 - smoothing, smooth = smoothing / static_cast<double>(classes);
  }
  int64_t places() const { return outer * inner; }
  int64_t blocks() const { return outer * divide_up(inner, kClassBlock); }

  // Contiguous places: [first, first + count) among the targets. Their scores of class 0 begin at
  // `scores`.
  struct Block {
    int64_t first, count, scores;
  };
  Block block(int64_t index) const {
    const int64_t in_row = divide_up(inner, kClassBlock), o = index / in_row;
    const int64_t at = index % in_row * kClassBlock;
    return {o * inner + at, std::min(kClassBlock, inner - at), o * classes * inner + at};
  }
  bool counts(int32_t target) const {
    if (target == ignored) return false;
    check_target(op, target, classes);
    return true;
  }
};

float weight_of(const float* weights, int64_t k) { return weights ? weights[k] : 1.0f; }

// Inputs are scores, target and weight. Outputs are the loss and, for cross-entropy, the
// log-probabilities.
class Loss final : public BoundKernel {
 public:
  Loss(const KernelRequest& request, std::unique_ptr<BoundKernel> softmax)
      : s_(request),
        softmax_(std::move(softmax)),
        place_ns_(4 + (s_.smooth != 0 ? s_.classes : 0)),
        parts_(parts_for(s_.places() * place_ns_, s_.blocks())) {}
  int phases() const override { return before() + 2; }  // softmax, sums by parts, the sum
  int tasks(int phase) const override {
    if (phase < before()) return softmax_->tasks(phase);
    return phase == before() ? static_cast<int>(parts_) : 1;
  }
  int64_t scratch_bytes() const override { return softmax_ ? softmax_->scratch_bytes() : 0; }
  int64_t workspace_bytes() const override { return 16 * parts_; }
  int64_t estimated_ns() const override {
    return s_.places() * place_ns_ + (softmax_ ? softmax_->estimated_ns() : 0);
  }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* sums = reinterpret_cast<double*>(args.workspace);
    if (phase < before()) {
      std::byte* buffers[] = {args.buffers[0], args.buffers[4]};
      KernelArgs own = args;
      own.buffers = buffers;
      return softmax_->run(own, phase, task);
    }
    if (phase > before()) return join(args, sums);
    sums[2 * task] = sums[2 * task + 1] = 0;
    const Range blocks = part_of(s_.blocks(), parts_, task);
    for (int64_t b = blocks.begin; b < blocks.end; ++b) add(args, s_.block(b), sums + 2 * task);
  }

 private:
  int before() const { return softmax_ ? softmax_->phases() : 0; }

  // Adds the places' losses to sums[0], the weights of their targets to sums[1].
  void add(const KernelArgs& args, const Scores::Block& b, double* sums) const {
    const int32_t* target = input_of<int32_t>(args, 1) + b.first;
    const float* weights = input_of<float>(args, 2);
    const float* y = input_of<float>(args, softmax_ ? 4 : 0) + b.scores;
    double losses[kClassBlock] = {};
    if (s_.smooth != 0 && s_.inner == 1) {
      auto weighted = [](float v, float weight) { return v * weight; };
      with_weights(args, 2, 1.0f, [&](auto each) {
        losses[0] = -s_.smooth * sum_row(s_.classes, weighted, y, each);
      });
    }
    for (int64_t k = 0; s_.smooth != 0 && s_.inner > 1 && k < s_.classes; ++k) {
      const double share = s_.smooth * weight_of(weights, k);
      for (int64_t i = 0; i < b.count; ++i) losses[i] -= share * y[k * s_.inner + i];
    }
    float* loss = s_.reduction == "none" ? buffer_of<float>(args, 3) + b.first : nullptr;
    for (int64_t i = 0; i < b.count; ++i) {
      if (!s_.counts(target[i])) {
        if (loss) loss[i] = 0;
        continue;
      }
      const double weight = weight_of(weights, target[i]);
      losses[i] -= s_.sharp * weight * y[target[i] * s_.inner + i];
      sums[0] += losses[i], sums[1] += weight;
      if (loss) loss[i] = static_cast<float>(losses[i]);
    }
  }
  void join(const KernelArgs& args, const double* sums) const {
    if (s_.reduction == "none") return;
    double sum = 0, weight = 0;
    for (int64_t p = 0; p < parts_; ++p) sum += sums[2 * p], weight += sums[2 * p + 1];
    *buffer_of<float>(args, 3) = static_cast<float>(s_.reduction == "mean" ? sum / weight : sum);
  }

  Scores s_;
  std::unique_ptr<BoundKernel> softmax_;
  int64_t place_ns_, parts_;
};

// Inputs are log-probabilities, target, weight and dloss; the output is the scores' gradient.
class LossGrad final : public BoundKernel {
 public:
  LossGrad(const KernelRequest& request, bool softmax)
      : s_(request),
        softmax_(softmax),
        ns_(s_.places() * s_.classes),
        parts_(parts_for(ns_, s_.blocks())) {}
  int phases() const override { return 2; }  // the scale, the gradient
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(parts_); }
  int64_t workspace_bytes() const override { return 64; }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* numbers = reinterpret_cast<double*>(args.workspace);
    if (phase == 0) return prepare(args, numbers);
    const Range blocks = part_of(s_.blocks(), parts_, task);
    for (int64_t b = blocks.begin; b < blocks.end; ++b) {
      gradient(args, s_.block(b), numbers[0], numbers[1]);
    }
  }

 private:
  // Computes the scale of a place's gradient, and the total smooth part of a label.
  void prepare(const KernelArgs& args, double* numbers) const {
    const int32_t* target = input_of<int32_t>(args, 1);
    const float* weights = input_of<float>(args, 2);
    double total = 0, smooth = 0;
    for (int64_t p = 0; p < s_.places(); ++p) {
      if (s_.counts(target[p])) total += weight_of(weights, target[p]);
    }
    for (int64_t k = 0; k < s_.classes; ++k) smooth += s_.smooth * weight_of(weights, k);
    numbers[0] = s_.reduction == "mean" ? 1 / total : 1;
    numbers[1] = smooth;
  }
  void gradient(const KernelArgs& args, const Scores::Block& b, double scale, double smooth) const {
    const float* y = input_of<float>(args, 0) + b.scores;
    const int32_t* target = input_of<int32_t>(args, 1) + b.first;
    const float *weights = input_of<float>(args, 2), *dloss = input_of<float>(args, 3);
    float* dx = buffer_of<float>(args, 4) + b.scores;
    // For each place: the share of the target's class, the factor of every class's probability, and
    // the factor of every class's weight.
    float own[kClassBlock] = {}, likely[kClassBlock] = {}, even[kClassBlock] = {};
    uint32_t counts[kClassBlock] = {};  // all bits, or none
    for (int64_t i = 0; i < b.count; ++i) {
      if (!s_.counts(target[i])) continue;
      counts[i] = ~uint32_t{0};
      const double dy = scale * dloss[s_.reduction == "none" ? b.first + i : 0];
      const double label = s_.sharp * weight_of(weights, target[i]);
      own[i] = static_cast<float>(dy * label);
      likely[i] = static_cast<float>(softmax_ ? dy * (label + smooth) : 0);
      even[i] = static_cast<float>(dy * s_.smooth);
    }
    if (s_.inner == 1) {
      one_place(y, weights, counts[0] != 0, likely[0], even[0], dx);
    } else {
      for (int64_t k = 0; k < s_.classes; ++k) {
        const float weight = weight_of(weights, k);
        const float* ys = y + k * s_.inner;
        float* dxs = dx + k * s_.inner;
        if (!softmax_) {
          for (int64_t i = 0; i < b.count; ++i) {
            dxs[i] = vec::bits(vec::bits(0.0f - even[i] * weight) & counts[i]);
          }
          continue;
        }
#pragma GCC ivdep
        for (int64_t i = 0; i < b.count; ++i) {
          const float value = likely[i] * vec::exp(ys[i]) - even[i] * weight;
          dxs[i] = vec::bits(vec::bits(value) & counts[i]);
        }
      }
    }
    for (int64_t i = 0; i < b.count; ++i) {
      if (counts[i] != 0) dx[target[i] * s_.inner + i] -= own[i];
    }
  }
  void one_place(const float* y, const float* weights, bool counts, float likely, float even,
                 float* dx) const {
    if (!counts || !softmax_) return std::fill_n(dx, s_.classes, 0.0f), void();
    // A condition within the loop would keep it from being vectorised.
    if (!weights) return by_weights(y, Always{1.0f}, likely, even, dx);
    by_weights(y, weights, likely, even, dx);
  }
  template <typename Weights>
  void by_weights(const float* y, Weights weights, float likely, float even, float* dx) const {
#pragma GCC ivdep
    for (int64_t k = 0; k < s_.classes; ++k) {
      dx[k] = likely * vec::exp(y[k]) - even * weights[k];
    }
  }

  Scores s_;
  bool softmax_;
  int64_t ns_, parts_;
};

}  // namespace

void refuse_target(const std::string& op, int32_t target, int64_t classes) {
  throw support::UserError(support::str("[", op, "] target ", target, " is not in [0, ", classes,
                                        "). Correct the labels, or set ignore_index."));
}

std::unique_ptr<BoundKernel> make_class_loss(const KernelRequest& request, bool softmax) {
  if (request.inputs[0]->elements() == 0) return nullptr;
  if (!softmax) return std::make_unique<Loss>(request, nullptr);
  const int64_t axis = request.inputs[0]->rank() == 1 ? 0 : 1;
  const int64_t n = request.inputs[0]->shape[axis];
  KernelRequest probabilities = request;
  probabilities.inputs.resize(1);
  probabilities.outputs = {request.outputs[1]};
  const Lines lines(request.inputs[0]->shape, axis, axis);
  if (lines.inner >= columns::kLeast) {
    using Columns = columns::Kernel<columns::LogSoftmax, float, float>;
    return std::make_unique<Loss>(request, std::make_unique<Columns>(lines, 1));
  }
  auto line = [n](const Line& line) { log_softmax_row(line.at<float>(0), line.at<float>(1), n); };
  return std::make_unique<Loss>(request, make_along_axis(probabilities, axis, axis, 2, 0, line));
}

std::unique_ptr<BoundKernel> make_class_loss_grad(const KernelRequest& request, bool softmax) {
  if (request.inputs[0]->elements() == 0 || request.epilogue) return nullptr;
  return std::make_unique<LossGrad>(request, softmax);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
