// Batch normalisation over rows of channels ([n, spatial..., c] in memory) or over planes. Sums are
// in double, and their parts join in order; one last pass applies them. Mean, deviation and y are
// rounded where torch rounds them: a difference of an ulp may take a value across a later kink.
#include <cmath>

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/norm/channel_sums.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// Runs rounds of two phases, one that sums and one that joins; the last phase applies.
class ByChannel : public BoundKernel {
 public:
  // A channel has `sums` values in each round, and `numbers` values for all rounds together.
  ByChannel(const KernelRequest& request, int rounds, int sums, int numbers)
      : channels_(request.inputs[0]->shape[1]),
        rows_(request.inputs[0]->elements() / channels_),
        planes_(planes_of(request)),
        epilogue_(request),
        rounds_(rounds),
        sums_(sums),
        numbers_(numbers) {
    const int64_t ns = rows_ * channels_ / 8;
    sum_parts_ = parts_for(ns, divide_up(rows_, kSummedRows));
    apply_parts_ = parts_for(ns + epilogue_.estimated_ns(rows_ * channels_), applied_units());
  }
  int phases() const override { return 2 * rounds_ + 1; }
  int tasks(int phase) const override {
    if (phase == 2 * rounds_) return static_cast<int>(apply_parts_);
    return phase % 2 == 0 ? static_cast<int>(sum_parts_) : 1;
  }
  int64_t workspace_bytes() const override {
    return (8 * sums_ * sum_parts_ + 4 * numbers_) * channels_;
  }
  int64_t scratch_bytes() const override { return epilogue_.scratch_bytes(); }
  int64_t estimated_ns() const override { return 200 + rows_ * channels_ / 2; }

  void run(const KernelArgs& args, int phase, int task) const override {
    auto* sums = reinterpret_cast<double*>(args.workspace);
    const int64_t part = sums_ * channels_;
    auto* numbers = reinterpret_cast<float*>(sums + sum_parts_ * part);
    if (phase == 2 * rounds_) return apply_all(args, task, numbers);
    if (phase % 2 == 0) {
      double* mine = sums + task * part;
      std::fill_n(mine, part, 0.0);
      return sum(args, phase / 2, part_of(rows_, sum_parts_, task, kSummedRows), numbers, mine);
    }
    for (int64_t p = 1; p < sum_parts_; ++p) {
      for (int64_t i = 0; i < part; ++i) sums[i] += sums[p * part + i];
    }
    join(args, phase / 2, sums, numbers);
  }

 protected:
  virtual void sum(const KernelArgs& args, int round, Range rows, const float* numbers,
                   double* sums) const = 0;
  virtual void join(const KernelArgs& args, int round, const double* sums,
                    float* numbers) const = 0;
  // Computes a block from an element on, whose channel is c, in the result or in `held`.
  virtual void apply(const KernelArgs& args, int64_t first, int64_t c, const ChannelBlock& block,
                     const float* numbers, float* held) const = 0;

  template <size_t K, int together, typename Term, typename... X>
  void sum_terms(Range rows, double* sums, const float* numbers, Term term, const X*... x) const {
    if (planes_.pixels > 0) {
      return sum_planes<K, together>(rows, planes_, sums, numbers, term, x...);
    }
    sum_rows<K, together>(rows, channels_, sums, numbers, term, x...);
  }

  int64_t channels_, rows_;

 private:
  // Returns no pixels for rows of channels.
  static Planes planes_of(const KernelRequest& request) {
    const ir::Shape& x = request.inputs[0]->shape;
    const bool planes =
        x.size() > 2 && request.input_layouts[0].kind != Layout::Kind::kChannelsLast;
    return {x[1], planes ? request.inputs[0]->elements() / (x[0] * x[1]) : 0};
  }
  // Tasks apply rows, or as many neighbouring pixels of planes.
  int64_t applied_units() const {
    return planes_.pixels > 0 ? divide_up(rows_ * channels_, Epilogue::kTogether) : rows_;
  }
  void apply_all(const KernelArgs& args, int task, const float* numbers) const {
    const Range mine = part_of(applied_units(), apply_parts_, task);
    if (planes_.pixels > 0) return apply_planes(args, mine, numbers);
    if (epilogue_.is_half_ending()) return apply_and_end(args, mine, numbers);
    const int64_t together = std::max<int64_t>(1, Epilogue::kTogether / channels_);
    for (int64_t r = mine.begin; r < mine.end; r += together) {
      const int64_t count = std::min(together, mine.end - r);
      apply(args, r * channels_, 0, {count, channels_, channels_, channels_}, numbers, nullptr);
      if (!epilogue_) continue;
      epilogue_.run(args, {.first = r * channels_, .cols = count * channels_}, args.scratch);
    }
  }
  // The floats of a block stay in the cache.
  void apply_and_end(const KernelArgs& args, Range rows, const float* numbers) const {
    constexpr int64_t kRows = 32, kChannels = 64;
    alignas(64) float held[kRows * kChannels];
    const HalfEnding ending = epilogue_.half_ending(args, 0, 0, channels_);
    for (int64_t r = rows.begin; r < rows.end; r += kRows) {
      const int64_t count = std::min(kRows, rows.end - r);
      for (int64_t c = 0; c < channels_; c += kChannels) {
        const int64_t width = std::min(kChannels, channels_ - c);
        apply(args, r * channels_ + c, c, {count, width, channels_, kChannels}, numbers, held);
        kernel_set().half_blocks.end(ending.from(r, c), held, kChannels, count, width);
      }
    }
  }
  void apply_planes(const KernelArgs& args, Range units, const float* numbers) const {
    constexpr int64_t kUnit = Epilogue::kTogether;
    alignas(64) float floats[kUnit];
    // Floats that are rounded at random need no memory.
    const bool at_random =
        epilogue_.is_half_ending() && epilogue_.half_ending(args, 0, 0, 1).rounding.at_random;
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const int64_t first = unit * kUnit, end = std::min(first + kUnit, rows_ * channels_);
      for (int64_t i = first, next; i < end; i = next) {
        const int64_t plane = i / planes_.pixels;
        next = std::min(end, (plane + 1) * planes_.pixels);
        apply(args, i, plane % channels_, {.pixels = next - i}, numbers,
              at_random ? floats + (i - first) : nullptr);
      }
      if (!epilogue_) continue;
      TileBlock block{.first = first, .cols = end - first};
      if (at_random) block.source = reinterpret_cast<const std::byte*>(floats);
      epilogue_.run(args, block, args.scratch);
    }
  }

  Planes planes_;
  Epilogue epilogue_;
  int rounds_, sums_, numbers_;
  int64_t sum_parts_, apply_parts_;
};

// Inputs are x, weight, bias, running mean and running variance; outputs are y, mean, inv_std and
// both running values. The first round gives the mean, the second the squared deviations of x from
// it. The numbers of all channels are [scale, shift] of y = x · scale + shift, then the means.
template <typename X, typename Y>
class BatchNormTraining final : public ByChannel {
 public:
  explicit BatchNormTraining(const KernelRequest& request)
      : ByChannel(request, 2, 1, 3),
        eps_(request.attr<double>("eps")),
        momentum_(request.attr<double>("momentum")) {}

 private:
  const float* means(const float* numbers) const { return numbers + 2 * channels_; }

  void scale_by(const KernelArgs& args, int64_t c, float mean, float inv_std,
                float* numbers) const {
    const float *weight = input_of<float>(args, 1), *bias = input_of<float>(args, 2);
    const float scale = weight ? inv_std * weight[c] : inv_std;
    numbers[c] = scale;
    numbers[channels_ + c] = std::fma(-mean, scale, bias ? bias[c] : 0.0f);
  }
  void apply(const KernelArgs& args, int64_t first, int64_t c, const ChannelBlock& block,
             const float* numbers, float* held) const override {
    auto map = [&](auto* y) {
      map_channels(
          block, y, std::array{numbers + c, numbers + channels_ + c},
          [](const Terms<2>& n, Widest v) { return fmadd(v, n.of[0], n.of[1]); },
          input_of<X>(args, 0) + first);
    };
    held ? map(held) : map(buffer_of<Y>(args, 5) + first);
  }

  void sum(const KernelArgs& args, int round, Range rows, const float* numbers,
           double* sums) const override {
    const X* x = input_of<X>(args, 0);
    if (round == 0) {
      return sum_terms<1, 1>(rows, sums, numbers, [](Widest, Widest v) { return Terms<1>{v}; }, x);
    }
    // All terms have one sign, so that a sum of few floats is as exact as they are.
    sum_terms<1, 4>(
        rows, sums, means(numbers),
        [](Widest mean, Widest v) { return Terms<1>{(v - mean) * (v - mean)}; }, x);
  }
  void join(const KernelArgs& args, int round, const double* sums, float* numbers) const override {
    if (round == 0) {
      const auto count = static_cast<double>(rows_);
      float* mean = numbers + 2 * channels_;
      for (int64_t c = 0; c < channels_; ++c) mean[c] = static_cast<float>(sums[c] / count);
    } else {
      for (int64_t c = 0; c < channels_; ++c) finish(args, c, sums[c], numbers);
    }
  }
  void finish(const KernelArgs& args, int64_t c, double sum, float* numbers) const {
    const float mean = means(numbers)[c], squares = static_cast<float>(sum);
    const float variance = squares / static_cast<float>(rows_);
    const auto inv_std = static_cast<float>(1 / std::sqrt(variance + eps_));
    store(args, 6, c, mean);
    store(args, 7, c, inv_std);
    store(args, 8, c, moved(args, 3, c, mean));
    store(args, 9, c, moved(args, 4, c, squares / static_cast<double>(rows_ - 1)));
    scale_by(args, c, mean, inv_std, numbers);
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

// Inputs are x, weight, mean, inv_std and dy; outputs are dx, dweight and dbias.
template <typename X, typename Y>
class BatchNormGradient final : public ByChannel {
 public:
  explicit BatchNormGradient(const KernelRequest& request) : ByChannel(request, 1, 2, 3) {}

 private:
  void sum(const KernelArgs& args, int, Range rows, const float*, double* sums) const override {
    sum_terms<2, 1>(
        rows, sums, input_of<float>(args, 2),
        [](Widest mean, Widest v, Widest g) { return Terms<2>{{g, g * (v - mean)}}; },
        input_of<X>(args, 0), input_of<X>(args, 4));
  }
  void join(const KernelArgs& args, int, const double* sums, float* numbers) const override {
    const float *weight = input_of<float>(args, 1), *inv_std = input_of<float>(args, 3);
    const double *all = sums, *dot = sums + channels_;
    const auto count = static_cast<double>(rows_);
    for (int64_t c = 0; c < channels_; ++c) {
      const double inv = inv_std[c], scale = inv * (weight ? weight[c] : 1.0f);
      if (args.buffers[6]) buffer_of<float>(args, 6)[c] = static_cast<float>(dot[c] * inv);
      if (args.buffers[7]) buffer_of<float>(args, 7)[c] = static_cast<float>(all[c]);
      numbers[c] = static_cast<float>(scale);
      numbers[channels_ + c] = static_cast<float>(-scale * inv * inv * dot[c] / count);
      numbers[2 * channels_ + c] = static_cast<float>(-scale * all[c] / count);
    }
  }
  void apply(const KernelArgs& args, int64_t first, int64_t c, const ChannelBlock& block,
             const float* numbers, float* held) const override {
    numbers += c;
    auto map = [&](auto* y) {
      map_channels(
          block, y,
          std::array{input_of<float>(args, 2) + c, numbers, numbers + channels_,
                     numbers + 2 * channels_},
          [](const Terms<4>& n, Widest g, Widest v) {
            return g * n.of[1] + (v - n.of[0]) * n.of[2] + n.of[3];
          },
          input_of<X>(args, 4) + first, input_of<X>(args, 0) + first);
    };
    held ? map(held) : map(buffer_of<Y>(args, 5) + first);
  }
};

// Inputs are weight, bias, mean and variance; outputs are scale and shift.
class BatchNormFactors final : public BoundKernel {
 public:
  explicit BatchNormFactors(const KernelRequest& request)
      : channels_(request.inputs[3]->elements()), eps_(request.attr<double>("eps")) {}
  int tasks(int) const override { return 1; }
  int64_t estimated_ns() const override { return 20 + channels_; }
  void run(const KernelArgs& args, int, int) const override {
    const float *weight = input_of<float>(args, 0), *bias = input_of<float>(args, 1);
    const float *mean = input_of<float>(args, 2), *variance = input_of<float>(args, 3);
    float *scale = buffer_of<float>(args, 4), *shift = buffer_of<float>(args, 5);
    for (int64_t c = 0; c < channels_; ++c) {
      const auto inv_std = static_cast<float>(1 / std::sqrt(variance[c] + eps_));
      scale[c] = weight ? inv_std * weight[c] : inv_std;
      shift[c] = std::fma(-mean[c], scale[c], bias ? bias[c] : 0.0f);
    }
  }

 private:
  int64_t channels_;
  double eps_;
};

// Planes stay as they are where all operands have them. Where they are small, many blocks of rows
// would have parts of several.
void choose_layouts(KernelRequest& request) {
  constexpr int64_t kLeastPixels = 400;
  const ir::Shape& x = request.inputs[0]->shape;
  const bool small = x.size() > 2 && request.inputs[0]->elements() < x[0] * x[1] * kLeastPixels;
  bool last = small;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    last |= request.inputs[i] && request.input_layouts[i].kind == Layout::Kind::kChannelsLast;
  }
  auto choose = [last](const ir::Type& type, Layout& layout) {
    layout = {};
    if (last && type.rank() >= 3) layout.kind = Layout::Kind::kChannelsLast;
  };
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (request.inputs[i]) choose(*request.inputs[i], request.input_layouts[i]);
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    choose(request.outputs[i], request.output_layouts[i]);
  }
}

template <template <typename, typename> typename Kernel, uint64_t operands>
struct BatchNorm {
  static constexpr StoredBuffers kStored = {operands, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    const ir::Type& x = *request.inputs[0];
    if (x.rank() < 2 || x.elements() == 0) return nullptr;
    return std::make_unique<Kernel<X, Y>>(request);
  }
};

std::unique_ptr<BoundKernel> bind_factors(const KernelRequest& request) {
  return std::make_unique<BatchNormFactors>(request);
}

}  // namespace

void add_batch_norm_kernels(KernelTable& table) {
  table.add({.op = "batch_norm",
             .bind = bind_stored<BatchNorm<BatchNormTraining, 1>>,
             .choose_layouts = choose_layouts,
             .takes_epilogue = true,
             .reads_halves = true});
  table.add({.op = "batch_norm_grad",
             .bind = bind_stored<BatchNorm<BatchNormGradient, 1 | 1 << 4>>,
             .choose_layouts = choose_layouts,
             .takes_epilogue = true,
             .reads_halves = true});
  table.add({.op = "batch_norm_factors", .bind = bind_floats<bind_factors>});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
