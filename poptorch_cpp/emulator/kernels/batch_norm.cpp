// Batch normalisation over rows of channels ([n, spatial..., c] in memory): sums in blocks of f32
// that join in double, parts joined in order, then one pass that applies them.
#include <cmath>

#include "emulator/kernels/families.hpp"
#include "emulator/kernels/support.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kBlock = 64;  // rows, and channels, that are summed in f32
constexpr int64_t kShiftRows = 16;

// What a part of the rows sums, for every channel.
struct Sums {
  double *a, *b;
  float* shift;  // what x is less of: the same for all parts
};

// sums.a[c] += Σ u and sums.b[c] += Σ v over the rows, where term(row, c, u, v) gives both.
template <typename Term>
void two_sums(Range rows, int64_t channels, const Sums& sums, Term term) {
  for (int64_t r = rows.begin; r < rows.end; r += kBlock) {
    const int64_t end = std::min(r + kBlock, rows.end);
    for (int64_t c = 0; c < channels; c += kBlock) {
      const int64_t n = std::min(kBlock, channels - c);
      float us[kBlock] = {}, vs[kBlock] = {};
      for (int64_t k = r; k < end; ++k) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) {
          float u, v;
          term(k, c + i, u, v);
          us[i] += u;
          vs[i] += v;
        }
      }
      for (int64_t i = 0; i < n; ++i) sums.a[c + i] += us[i], sums.b[c + i] += vs[i];
    }
  }
}

// Phase 0 sums, phase 1 joins, phase 2 applies.
class ByChannel : public BoundKernel {
 public:
  ByChannel(const KernelRequest& request, int coefficients)
      : channels_(request.inputs[0]->shape[1]),
        rows_(request.inputs[0]->elements() / channels_),
        epilogue_(request),
        coefficients_(coefficients) {
    const int64_t ns = rows_ * channels_ / 3;
    sum_parts_ = parts_for(ns, divide_up(rows_, kBlock));
    apply_parts_ = parts_for(ns + epilogue_.estimated_ns(rows_ * channels_), rows_);
  }
  int phases() const override { return 3; }
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? sum_parts_ : phase == 1 ? 1 : apply_parts_);
  }
  int64_t workspace_bytes() const override {
    return (20 * sum_parts_ + 4 * coefficients_) * channels_;
  }
  int64_t scratch_bytes() const override { return epilogue_.scratch_bytes(); }
  int64_t estimated_ns() const override { return 200 + rows_ * channels_ / 2; }

  void run(const KernelArgs& args, int phase, int task) const override {
    auto* sums = reinterpret_cast<double*>(args.workspace);
    auto* numbers = reinterpret_cast<float*>(sums + 2 * sum_parts_ * channels_);
    auto* shifts = numbers + coefficients_ * channels_;
    if (phase == 0) {
      double* mine = sums + 2 * task * channels_;
      std::fill_n(mine, 2 * channels_, 0.0);
      return sum(args, part_of(rows_, sum_parts_, task, kBlock),
                 {mine, mine + channels_, shifts + task * channels_});
    }
    if (phase == 1) {
      for (int64_t p = 1; p < sum_parts_; ++p) {
        for (int64_t i = 0; i < 2 * channels_; ++i) sums[i] += sums[2 * p * channels_ + i];
      }
      return join(args, {sums, sums + channels_, shifts}, numbers);
    }
    const Range rows = part_of(rows_, apply_parts_, task);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      apply(args, r, numbers);
      if (epilogue_) {
        epilogue_.run(args, {.first = r * channels_, .cols = channels_}, args.scratch);
      }
    }
  }

 protected:
  virtual void sum(const KernelArgs& args, Range rows, const Sums& sums) const = 0;
  virtual void join(const KernelArgs& args, const Sums& sums, float* numbers) const = 0;
  virtual void apply(const KernelArgs& args, int64_t row, const float* numbers) const = 0;

  int64_t channels_, rows_;

 private:
  Epilogue epilogue_;
  int64_t coefficients_, sum_parts_, apply_parts_;
};

// Inputs x, weight, bias, running mean, running variance; outputs y, mean, inv_std, and both
// running ones. Sums are of x less the mean of its first rows: neither a large mean nor an outlier
// cancels digits.
class Training final : public ByChannel {
 public:
  explicit Training(const KernelRequest& request)
      : ByChannel(request, 2),
        eps_(request.attr<double>("eps")),
        momentum_(request.attr<double>("momentum")) {}

 private:
  void sum(const KernelArgs& args, Range rows, const Sums& sums) const override {
    const float* x = input_of<float>(args, 0);
    const int64_t first = std::min(rows_, kShiftRows);
    const float share = 1.0f / static_cast<float>(first);
    std::fill_n(sums.shift, channels_, 0.0f);
    for (int64_t r = 0; r < first; ++r) {
      for (int64_t c = 0; c < channels_; ++c) sums.shift[c] += share * x[r * channels_ + c];
    }
    two_sums(rows, channels_, sums, [&](int64_t r, int64_t c, float& u, float& v) {
      u = x[r * channels_ + c] - sums.shift[c];
      v = u * u;
    });
  }
  void join(const KernelArgs& args, const Sums& sums, float* numbers) const override {
    const float *weight = input_of<float>(args, 1), *bias = input_of<float>(args, 2);
    const auto count = static_cast<double>(rows_);
    for (int64_t c = 0; c < channels_; ++c) {
      const double shifted = sums.a[c] / count, mean = shifted + sums.shift[c];
      const double variance = std::max(sums.b[c] / count - shifted * shifted, 0.0);
      const double inv_std = 1 / std::sqrt(variance + eps_);
      const double unbiased = variance * count / (count - 1);
      store(args, 6, c, mean);
      store(args, 7, c, inv_std);
      store(args, 8, c, moved(args, 3, c, mean));
      store(args, 9, c, moved(args, 4, c, unbiased));
      const double scale = inv_std * (weight ? weight[c] : 1.0f);
      numbers[c] = static_cast<float>(scale);
      numbers[channels_ + c] = static_cast<float>((bias ? bias[c] : 0.0f) - mean * scale);
    }
  }
  void apply(const KernelArgs& args, int64_t row, const float* numbers) const override {
    const float* x = input_of<float>(args, 0) + row * channels_;
    float* y = buffer_of<float>(args, 5) + row * channels_;
#pragma GCC ivdep
    for (int64_t c = 0; c < channels_; ++c) y[c] = x[c] * numbers[c] + numbers[channels_ + c];
  }
  double moved(const KernelArgs& args, int input, int64_t c, double to) const {
    const float* running = input_of<float>(args, input);
    return running ? (1 - momentum_) * running[c] + momentum_ * to : to;
  }
  static void store(const KernelArgs& args, int buffer, int64_t c, double value) {
    if (args.buffers[buffer]) buffer_of<float>(args, buffer)[c] = static_cast<float>(value);
  }
  double eps_, momentum_;
};

// Inputs x, weight, mean, inv_std, dy; outputs dx, dweight, dbias.
class Gradient final : public ByChannel {
 public:
  explicit Gradient(const KernelRequest& request) : ByChannel(request, 3) {}

 private:
  void sum(const KernelArgs& args, Range rows, const Sums& sums) const override {
    const float *x = input_of<float>(args, 0), *dy = input_of<float>(args, 4),
                *mean = input_of<float>(args, 2);
    two_sums(rows, channels_, sums, [&](int64_t r, int64_t c, float& u, float& v) {
      u = dy[r * channels_ + c];
      v = u * (x[r * channels_ + c] - mean[c]);
    });
  }
  void join(const KernelArgs& args, const Sums& sums, float* numbers) const override {
    const float *weight = input_of<float>(args, 1), *inv_std = input_of<float>(args, 3);
    const auto count = static_cast<double>(rows_);
    for (int64_t c = 0; c < channels_; ++c) {
      const double inv = inv_std[c], scale = inv * (weight ? weight[c] : 1.0f);
      if (args.buffers[6]) buffer_of<float>(args, 6)[c] = static_cast<float>(sums.b[c] * inv);
      if (args.buffers[7]) buffer_of<float>(args, 7)[c] = static_cast<float>(sums.a[c]);
      numbers[c] = static_cast<float>(scale);
      numbers[channels_ + c] = static_cast<float>(-scale * inv * inv * sums.b[c] / count);
      numbers[2 * channels_ + c] = static_cast<float>(-scale * sums.a[c] / count);
    }
  }
  void apply(const KernelArgs& args, int64_t row, const float* numbers) const override {
    const float *x = input_of<float>(args, 0) + row * channels_, *mean = input_of<float>(args, 2),
                *dy = input_of<float>(args, 4) + row * channels_;
    float* dx = buffer_of<float>(args, 5) + row * channels_;
#pragma GCC ivdep
    for (int64_t c = 0; c < channels_; ++c) {
      dx[c] = dy[c] * numbers[c] + (x[c] - mean[c]) * numbers[channels_ + c] +
              numbers[2 * channels_ + c];
    }
  }
};

// Inputs x, weight, bias, mean, variance.
class Inference final : public ByChannel {
 public:
  explicit Inference(const KernelRequest& request)
      : ByChannel(request, 2), eps_(request.attr<double>("eps")) {}

 private:
  void sum(const KernelArgs&, Range, const Sums&) const override {}
  void join(const KernelArgs& args, const Sums&, float* numbers) const override {
    const float *weight = input_of<float>(args, 1), *bias = input_of<float>(args, 2),
                *mean = input_of<float>(args, 3), *variance = input_of<float>(args, 4);
    for (int64_t c = 0; c < channels_; ++c) {
      const double scale = (weight ? weight[c] : 1.0f) / std::sqrt(variance[c] + eps_);
      numbers[c] = static_cast<float>(scale);
      numbers[channels_ + c] = static_cast<float>((bias ? bias[c] : 0.0f) - mean[c] * scale);
    }
  }
  void apply(const KernelArgs& args, int64_t row, const float* numbers) const override {
    const float* x = input_of<float>(args, 0) + row * channels_;
    float* y = buffer_of<float>(args, 5) + row * channels_;
#pragma GCC ivdep
    for (int64_t c = 0; c < channels_; ++c) y[c] = x[c] * numbers[c] + numbers[channels_ + c];
  }
  double eps_;
};

void choose_layouts(KernelRequest& request) {
  auto choose = [](const ir::Type& type, Layout& layout) {
    layout = {};
    if (type.rank() >= 3) layout.kind = Layout::Kind::kChannelsLast;
  };
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (request.inputs[i]) choose(*request.inputs[i], request.input_layouts[i]);
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    choose(request.outputs[i], request.output_layouts[i]);
  }
}

template <typename Kernel>
std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
  const ir::Type& x = *request.inputs[0];
  const bool image = x.rank() >= 3;
  if (x.rank() < 2 || x.elements() == 0 ||
      (image && request.input_layouts[0].kind != Layout::Kind::kChannelsLast)) {
    return nullptr;
  }
  return std::make_unique<Kernel>(request);
}

}  // namespace

void add_batch_norm_kernels(KernelTable& table) {
  auto add = [&](const char* op, auto bind) {
    table.add({.op = op,
               .choose_layouts = choose_layouts,
               .bind = bind,
               .takes_epilogue = true,
               .in_place_input = {}});
  };
  add("batch_norm", bind_floats<bind<Training>>);
  add("batch_norm_grad", bind_floats<bind<Gradient>>);
  add("batch_norm_inference", bind_floats<bind<Inference>>);
}

}  // namespace poptorch::emulator
