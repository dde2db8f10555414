// Random draws. Element i of the type, in row-major order, uses
// number i of the op's sequence, so these kernels keep plain layouts.
#include <bit>

#include "emulator/kernels/families.hpp"
#include "emulator/kernels/support.hpp"
#include "reference/philox.hpp"

namespace poptorch::emulator {
namespace {

using reference::Philox;

constexpr int64_t kBatch = 32;  // numbers drawn at once, eight Philox blocks

// Calls use() for runs of at most kBatch elements of a task's part.
class Draw : public BoundKernel {
 public:
  explicit Draw(const KernelRequest& request)
      : elements_(request.outputs[0].elements()),
        parts_(parts_for(elements_ * 2, divide_up(elements_, kBatch))) {}
  int tasks(int) const override { return elements_ == 0 ? 0 : static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return elements_ * 2; }
  void run(const KernelArgs& args, int, int task) const override {
    const RandomKey& key = args.random;
    const Philox philox({.seed = key.seed,
                         .op_id = key.op_id,
                         .replica = same_in_replicas_ ? 0 : key.replica,
                         .micro_batch = key.micro_batch,
                         .round = key.round});
    const Range range = part_of(elements_, parts_, task, kBatch);
    for (int64_t i = range.begin; i < range.end; i += kBatch) {
      uint32_t numbers[kBatch];
      for (int64_t b = 0; b < kBatch; b += 4) {
        const Philox::Block block = philox.block(static_cast<uint64_t>((i + b) / 4));
        std::copy(block.begin(), block.end(), numbers + b);
      }
      use(args, i, std::min(kBatch, range.end - i), numbers);
    }
  }

 protected:
  virtual void use(const KernelArgs& args, int64_t first, int64_t count,
                   const uint32_t* numbers) const = 0;
  int64_t elements_, parts_;
  bool same_in_replicas_ = false;
};

// Inputs x; outputs y, mask.
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

// float32 to float16. The bits are those of reference::rounded_at_random.
class StochasticCast final : public Draw {
 public:
  explicit StochasticCast(const KernelRequest& request) : Draw(request) {
    same_in_replicas_ = request.attr<bool>("same_in_replicas");
  }

 private:
  void use(const KernelArgs& args, int64_t first, int64_t count,
           const uint32_t* numbers) const override {
    const float* x = input_of<float>(args, 0) + first;
    uint16_t* y = buffer_of<uint16_t>(args, 1) + first;
    for (int64_t i = 0; i < count; ++i) y[i] = narrowed(x[i], numbers[i]);
  }
  static uint16_t narrowed(float x, uint32_t word) {
    constexpr uint32_t kLeastNormal = 0x38800000, kOverflow = 0x47800000;  // 2^-14, 65536
    const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
    if (magnitude < kLeastNormal || magnitude >= kOverflow) {
      return ir::to_half_bits(reference::rounded_at_random(x, word, 11, -14));
    }
    // Thirteen bits go: up when they, as a fraction, are more than the word.
    const uint32_t up = (word >> 19) < (magnitude & 0x1fff);
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((magnitude >> 13) - (112 << 10) + up));
  }
};

class Uniform final : public Draw {
 public:
  explicit Uniform(const KernelRequest& request)
      : Draw(request),
        low_(request.attr<double>("low")),
        span_(request.attr<double>("high") - low_) {}

 private:
  void use(const KernelArgs& args, int64_t first, int64_t count,
           const uint32_t* numbers) const override {
    float* y = buffer_of<float>(args, 0) + first;
    for (int64_t i = 0; i < count; ++i) {
      y[i] = static_cast<float>(low_ + span_ * reference::unit_interval(numbers[i]));
    }
  }
  double low_, span_;
};

class Normal final : public Draw {
 public:
  explicit Normal(const KernelRequest& request)
      : Draw(request), mean_(request.attr<double>("mean")), std_(request.attr<double>("std")) {}

 private:
  void use(const KernelArgs& args, int64_t first, int64_t count,
           const uint32_t* numbers) const override {
    float* y = buffer_of<float>(args, 0) + first;
    for (int64_t i = 0; i < count; i += 2) {
      const auto pair = reference::normal_pair(numbers[i], numbers[i + 1]);
      for (int64_t k = i; k < std::min(i + 2, count); ++k) {
        y[k] = static_cast<float>(mean_ + std_ * pair[k - i]);
      }
    }
  }
  double mean_, std_;
};

template <typename Kernel>
std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
  // Half types draw fewer digits: the reference kernel knows how.
  if (has_half(request) || !only_float_to_32(request)) return nullptr;
  return std::make_unique<Kernel>(request);
}

// Rounding x to half, scaling in float and rounding again is what dropout on half types means.
std::unique_ptr<BoundKernel> bind_dropout(const KernelRequest& request) {
  return std::make_unique<Dropout>(request);
}

std::unique_ptr<BoundKernel> bind_stochastic_cast(const KernelRequest& request) {
  if (request.inputs[0]->dtype != ir::DType::kF32) return nullptr;
  if (request.outputs[0].dtype != ir::DType::kF16) return nullptr;
  return std::make_unique<StochasticCast>(request);
}

}  // namespace

void add_random_kernels(KernelTable& table) {
  auto add = [&](const char* op, auto bind) {
    table.add({.op = op,
               .choose_layouts = nullptr,
               .bind = bind,
               .takes_epilogue = false,
               .in_place_input = {}});
  };
  add("dropout", bind_floats<bind_dropout>);
  add("stochastic_cast", bind_stochastic_cast);
  add("random_uniform", bind<Uniform>);
  add("random_normal", bind<Normal>);
}

}  // namespace poptorch::emulator
