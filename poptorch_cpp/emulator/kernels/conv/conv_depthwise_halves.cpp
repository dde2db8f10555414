#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/base/transpose_block.hpp"
#include "emulator/kernels/conv/conv_halves.hpp"
#include "emulator/kernels/conv/depthwise_taps.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

// The workspace holds the weights and the bias as floats.
class ForwardHalves final : public Depthwise {
 public:
  ForwardHalves(const KernelRequest& request, const ConvShape& shape)
      : Depthwise(shape),
        end_(request),
        bias_(request.inputs.size() > 2 && request.inputs[2]),
        sums_(sums_of_halves(request.outputs[0].dtype, shape)),
        load_(load_fn(request.inputs[0]->dtype)) {
    parts_ = parts_for(ns_, s_.out_pixels());
    // A last group of taps that is not whole goes to the first sum.
    const int64_t whole = shape.taps() / sums_ * sums_;
    for (int64_t tap = 0; tap < shape.taps(); ++tap) {
      sum_of_tap_[tap] = tap < whole ? static_cast<int>(tap % sums_) : 0;
    }
  }
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(parts_); }
  int64_t workspace_bytes() const override { return 4 * c_ * (2 * s_.taps() + (bias_ ? 1 : 0)); }
  std::vector<int> prepared_operands() const override {
    return bias_ ? std::vector{1, 2} : std::vector{1};
  }
  int64_t scratch_bytes() const override { return end_.scratch_bytes(); }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) return prepare(args);
    const uint16_t* x = input_of<uint16_t>(args, 0);
    const Range pixels = part_of(s_.out_pixels(), parts_, task);
    const HalfEnding ending = end_.ending(args, 0, 0, c_);
    auto along = [&](int d, int64_t at, int64_t k) { return input_of_tap(d, at, k); };
    for_runs(pixels, s_.out, s_.in, s_.strides[2], along,
             [&](int64_t p, int64_t count, const Taps& taps) {
               Taps ordered;
               int ends[kPartialSums];
               order(taps, ordered, ends);
               sum_pixels_({.x = x,
                            .w = floats(args),
                            .bias = bias_ ? floats(args) + s_.taps() * c_ : nullptr,
                            .from = ordered.from,
                            .with = ordered.with,
                            .ends = ends,
                            .sums = sums_,
                            .channels = c_,
                            .step = s_.strides[2] * c_},
                           count, ending.from(p, 0));
             });
    if (!end_.has_chain()) return;
    end_.run_chain(args, {.first = pixels.begin * c_, .cols = pixels.size() * c_}, args.scratch);
  }

 private:
  float* floats(const KernelArgs& args) const { return reinterpret_cast<float*>(args.workspace); }
  void widen(const std::byte* from, float* to, int64_t n) const {
    MicroArgs args;
    args.src[0] = from;
    args.dst[0] = to;
    load_(args, n);
  }
  void prepare(const KernelArgs& args) const {
    float* weights = floats(args);
    float* bias = weights + s_.taps() * c_;
    float* plain = bias + (bias_ ? c_ : 0);
    widen(args.buffers[1], plain, s_.taps() * c_);
    transpose_weights(plain, weights);
    if (bias_) widen(args.buffers[2], bias, c_);
  }
  // Lists the taps of each sum one after another.
  void order(const Taps& taps, Taps& ordered, int* ends) const {
    int counts[kPartialSums] = {};
    for (int i = 0; i < taps.count; ++i) ++counts[sum_of_tap_[taps.number[i]]];
    for (int sum = 0, begin = 0; sum < sums_; ++sum) {
      ends[sum] = begin;  // each tap moves it
      begin += counts[sum];
    }
    for (int i = 0; i < taps.count; ++i) {
      const int place = ends[sum_of_tap_[taps.number[i]]]++;
      ordered.from[place] = taps.from[i];
      ordered.with[place] = taps.with[i];
    }
    ordered.count = taps.count;
  }

  HalfEnd end_;
  bool bias_;
  int sums_;
  int sum_of_tap_[kMaxTaps];
  int64_t parts_ = 1;
  MicroFn load_;
  const DepthwiseHalves sum_pixels_ = kernel_set().depthwise_halves;
};

}  // namespace

std::unique_ptr<BoundKernel> make_depthwise_halves(const KernelRequest& request,
                                                   const ConvShape& shape) {
  if (shape.taps() > kMaxTaps || !has_one_half_type(request)) return nullptr;
  return std::make_unique<ForwardHalves>(request, shape);
}

}  // namespace poptorch::emulator
