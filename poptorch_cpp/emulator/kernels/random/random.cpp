// Random draws. Element i of the type, in row-major order, uses number i of the op's sequence, so
// these kernels keep plain layouts.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"
#include "reference/rejection.hpp"

namespace poptorch::emulator {
namespace {

using reference::Philox;

constexpr int64_t kDrawn = kDrawnAtOnce;

// Calls use() for runs of at most kDrawn elements of a task's part.
class Draw : public BoundKernel {
 public:
  explicit Draw(const KernelRequest& request)
      : elements_(request.outputs[0].elements()),
        parts_(parts_for(elements_ * 2, divide_up(elements_, kDrawn))) {}
  int tasks(int) const override { return elements_ == 0 ? 0 : static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return elements_ * 2; }
  void run(const KernelArgs& args, int, int task) const override {
    const Philox philox(args.random);
    const Range range = part_of(elements_, parts_, task, kDrawn);
    for (int64_t i = range.begin; i < range.end; i += kDrawn) {
      uint32_t numbers[kDrawn];
      random_.words(philox, static_cast<uint64_t>(i), numbers);
      use(args, i, std::min(kDrawn, range.end - i), numbers);
    }
  }

 protected:
  virtual void use(const KernelArgs& args, int64_t first, int64_t count,
                   const uint32_t* numbers) const = 0;
  const RandomRoutines& random_ = kernel_set().random;
  int64_t elements_, parts_;
};

// The input is x; outputs are y and mask.
class Dropout final : public Draw {
 public:
  explicit Dropout(const KernelRequest& request) : Draw(request) {
    const double p = request.attr<double>("p");
    threshold_ = reference::drop_threshold(p);
    scale_ = p < 1 ? static_cast<float>(1 / (1 - p)) : 0.0f;
  }

 private:
  void use(const KernelArgs& args, int64_t first, int64_t count,
           const uint32_t* numbers) const override {
    const float* x = input_of<float>(args, 0) + first;
    float* y = buffer_of<float>(args, 1) + first;
    auto* mask = args.buffers[2] ? buffer_of<uint8_t>(args, 2) + first : nullptr;
    for (int64_t i = 0; i < count; ++i) {
      const bool kept = !reference::is_dropped(numbers[i], threshold_);
      y[i] = kept ? x[i] * scale_ : 0.0f;
      if (mask) mask[i] = kept;
    }
  }
  uint32_t threshold_;
  float scale_;
};

// Draws floats of any type of up to 32 bits, rounded once.
class DrawFloats : public Draw {
 public:
  explicit DrawFloats(const KernelRequest& request)
      : Draw(request),
        dtype_(request.outputs[0].dtype),
        store_(dtype_ == ir::DType::kF32 ? nullptr : store_fn(dtype_)) {}

 private:
  // Writes kDrawn numbers made of as many words.
  virtual void make(const uint32_t* numbers, double* y) const = 0;

  void use(const KernelArgs& args, int64_t first, int64_t count,
           const uint32_t* numbers) const override {
    double values[kDrawn];
    make(numbers, values);
    if (dtype_ == ir::DType::kF32) {
      float* y = buffer_of<float>(args, 0) + first;
      for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(values[i]);
      return;
    }
    float odd[kDrawn];
    random_.to_odd(values, odd);
    MicroArgs halves;
    halves.src[0] = odd;
    halves.dst[0] = buffer_of<uint16_t>(args, 0) + first;
    store_(halves, count);
  }

 protected:
  ir::DType dtype_;

 private:
  MicroFn store_;  // of halves
};

class Uniform final : public DrawFloats {
 public:
  explicit Uniform(const KernelRequest& request)
      : DrawFloats(request),
        low_(request.attr<double>("low")),
        span_(request.attr<double>("high") - low_) {}

 private:
  void make(const uint32_t* numbers, double* y) const override {
    random_.uniform(numbers, reference::random_digits(dtype_), low_, span_, y);
  }
  double low_, span_;
};

class Normal final : public DrawFloats {
 public:
  explicit Normal(const KernelRequest& request)
      : DrawFloats(request),
        mean_(request.attr<double>("mean")),
        std_(request.attr<double>("std")) {}

 private:
  void make(const uint32_t* numbers, double* y) const override {
    random_.normal(numbers, mean_, std_, y);
  }
  double mean_, std_;
};

// Draws each element by rejection; the operands are f32.
class Rejection final : public BoundKernel {
 public:
  using Number = double (*)(const Philox&, uint64_t, const float* const*);

  Rejection(const KernelRequest& request, Number number)
      : elements_(request.outputs[0].elements()),
        operands_(request.inputs.size()),
        parts_(parts_for(elements_ * 60, divide_up(elements_, kDrawn))),
        number_(number) {}
  int tasks(int) const override { return elements_ == 0 ? 0 : static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return elements_ * 60; }
  void run(const KernelArgs& args, int, int task) const override {
    const Philox philox(args.random);
    const Range range = part_of(elements_, parts_, task, kDrawn);
    const float* in[2] = {};
    for (size_t k = 0; k < operands_; ++k) in[k] = input_of<float>(args, k) + range.begin;
    float* y = buffer_of<float>(args, operands_);
    for (int64_t i = range.begin; i < range.end; ++i) {
      y[i] = static_cast<float>(number_(philox, static_cast<uint64_t>(i), in));
      for (size_t k = 0; k < operands_; ++k) ++in[k];
    }
  }

 private:
  int64_t elements_;
  size_t operands_;
  int64_t parts_;
  Number number_;
};

double gamma(const Philox& philox, uint64_t i, const float* const* in) {
  return reference::gamma_number(philox, i, *in[0]);
}
double poisson(const Philox& philox, uint64_t i, const float* const* in) {
  return reference::poisson_number(philox, i, *in[0]);
}
double binomial(const Philox& philox, uint64_t i, const float* const* in) {
  return reference::binomial_number(philox, i, *in[0], *in[1]);
}

template <Rejection::Number number>
std::unique_ptr<BoundKernel> bind_rejection(const KernelRequest& request) {
  return std::make_unique<Rejection>(request, number);
}

template <typename Kernel>
std::unique_ptr<BoundKernel> bind_random(const KernelRequest& request) {
  if (!only_float_to_32(request)) return nullptr;
  return std::make_unique<Kernel>(request);
}

// Dropout on half types rounds x to half, scales it in float and rounds it again.
std::unique_ptr<BoundKernel> bind_dropout(const KernelRequest& request) {
  return std::make_unique<Dropout>(request);
}

}  // namespace

void add_random_kernels(KernelTable& table) {
  table.add({.op = "dropout", .bind = bind_floats<bind_dropout>});
  table.add({.op = "random_gamma", .bind = bind_floats<bind_rejection<gamma>>});
  table.add({.op = "random_poisson", .bind = bind_floats<bind_rejection<poisson>>});
  table.add({.op = "random_binomial", .bind = bind_floats<bind_rejection<binomial>>});
  table.add({.op = "random_uniform", .bind = bind_random<Uniform>});
  table.add({.op = "random_normal", .bind = bind_random<Normal>});
}

}  // namespace poptorch::emulator
