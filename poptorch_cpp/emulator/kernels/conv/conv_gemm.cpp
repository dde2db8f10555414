#include "emulator/kernels/conv/conv_gemm.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kPixels = 96;  // of a block
constexpr int64_t kDepth = 256;  // of the patch gathered at a time

class ConvGemm final : public BoundKernel {
 public:
  ConvGemm(const KernelRequest& request, const ConvShape& shape, const WeightView& weights,
           ConvBuffers buffers)
      : s_(shape),
        reads_(shape),
        view_(weights),
        at_(buffers),
        epilogue_(request),
        dots_(is_dots(shape, weights)) {
    const auto ns = static_cast<int64_t>(s_.flops() / 60);
    ns_ = ns + epilogue_.estimated_ns(s_.out_pixels() * s_.out_channels);
    const int64_t wanted = parts_for(ns, 48);
    pixel_parts_ = std::clamp<int64_t>(s_.out_pixels() / 48, 1, wanted);
    col_parts_ =
        std::clamp<int64_t>(s_.group_out() / 64, 1, divide_up(wanted, pixel_parts_ * s_.groups));
    patch_floats_ = s_.pointwise() ? 0 : std::min(kPixels, s_.out_pixels()) * chunk();
  }
  int phases() const override { return view_.in_panels || dots_ ? 1 : 2; }
  int tasks(int phase) const override {
    return static_cast<int>(phase + 1 < phases() ? pack_parts() * s_.groups
                                                 : pixel_parts_ * col_parts_ * s_.groups);
  }
  int64_t scratch_bytes() const override {
    return round_up(4 * patch_floats_, 64) + epilogue_.scratch_bytes();
  }
  int64_t workspace_bytes() const override {
    return phases() == 1 ? 0 : 4 * group_floats() * s_.groups;
  }
  std::vector<int> prepared_operands() const override {
    return phases() == 1 ? std::vector<int>{} : std::vector{at_.w};
  }
  int64_t estimated_ns() const override { return ns_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase + 1 < phases()) return pack(args, task);
    const int64_t col_part = task % col_parts_, rest = task / col_parts_;
    const int64_t group = rest % s_.groups, pixel_part = rest / s_.groups;
    const Range pixels = part_of(s_.out_pixels(), pixel_parts_, pixel_part);
    const Range cols = part_of(s_.group_out(), col_parts_, col_part, kPanel);
    for (int64_t p = pixels.begin; p < pixels.end; p += kPixels) {
      block(args, group, {p, std::min(p + kPixels, pixels.end)}, cols);
    }
  }

 private:
  int64_t chunk() const { return std::min(kDepth, s_.depth()); }
  int64_t group_floats() const { return packed_floats(s_.depth(), s_.group_out()); }
  int64_t pack_parts() const {
    return parts_for(group_floats() / 2, divide_up(s_.group_out(), kPanel));
  }
  void pack(const KernelArgs& args, int64_t task) const {
    const int64_t group = task % s_.groups, part = task / s_.groups;
    const Range panels = part_of(divide_up(s_.group_out(), kPanel), pack_parts(), part);
    float* packed = reinterpret_cast<float*>(args.workspace) + group * group_floats();
    for (int64_t tap = 0; tap < s_.taps(); ++tap) {
      const int64_t from = view_.flipped ? s_.taps() - 1 - tap : tap;
      MatrixView w = view_.matrix;
      w.data = input_of<float>(args, at_.w) + group * view_.group_stride + from * view_.tap_stride;
      pack_panels(w, s_.group_in(), s_.group_out(), panels.begin, panels.end,
                  packed + tap * s_.group_in() * kPanel, s_.depth());
    }
  }

  // A single channel is made of dot products of its weights and of the pixels' channels.
  static bool is_dots(const ConvShape& shape, const WeightView& weights) {
    const bool whole = weights.matrix.row == 1 && !weights.flipped && !weights.in_panels;
    return shape.pointwise() && shape.out_channels == 1 && whole;
  }
  void dots(const KernelArgs& args, Range pixels) const {
    const int64_t depth = s_.in_channels;
    float* y = buffer_of<float>(args, at_.y) + pixels.begin;
    gemm_dots(1, pixels.size(), depth, OperandView(input_of<float>(args, at_.w), depth, 1),
              OperandView(input_of<float>(args, at_.x) + pixels.begin * depth, 1, depth), nullptr,
              y, pixels.size());
    const float bias = at_.bias < 0 ? 0.0f : *input_of<float>(args, at_.bias);
    for (int64_t i = 0; at_.bias >= 0 && i < pixels.size(); ++i) y[i] += bias;
    if (!epilogue_) return;
    epilogue_.run(args, {.first = pixels.begin, .cols = pixels.size()}, args.scratch);
  }

  void block(const KernelArgs& args, int64_t group, Range pixels, Range cols) const {
    if (dots_) return dots(args, pixels);
    float* patches = reinterpret_cast<float*>(args.scratch);
    const float* x = input_of<float>(args, at_.x);
    const std::byte* panels = view_.in_panels ? args.buffers[at_.w] : args.workspace;
    const float* packed =
        reinterpret_cast<const float*>(panels) + group * group_floats() + cols.begin * s_.depth();
    const int64_t channel = group * s_.group_out() + cols.begin;
    const int64_t first = pixels.begin * s_.out_channels + channel;
    float* y = buffer_of<float>(args, at_.y) + first;
    const float* bias = at_.bias < 0 ? nullptr : input_of<float>(args, at_.bias) + channel;
    Ending ending;
    if (epilogue_.is_ending()) {
      ending = epilogue_.ending(args, pixels.begin, channel, s_.out_channels);
    }
    for (int64_t p = 0; p < s_.depth(); p += kDepth) {
      const int64_t depth = std::min(kDepth, s_.depth() - p);
      MatrixView a{patches, depth, 1};
      if (s_.pointwise()) {
        a = {x + pixels.begin * s_.in_channels + group * s_.group_in() + p, s_.in_channels, 1};
      } else {
        reads_.read(x, pixels, group, p, p + depth, patches);
      }
      const bool last = p + depth == s_.depth();
      gemm_packed(pixels.size(), cols.size(), depth, a, packed + p * kPanel, s_.depth(),
                  last ? bias : nullptr, y, s_.out_channels, p > 0, nullptr, Element::kFloat,
                  last && epilogue_.is_ending() ? &ending : nullptr);
    }
    if (!epilogue_ || epilogue_.is_ending()) return;
    epilogue_.run(
        args,
        {.first = first, .rows = pixels.size(), .row_step = s_.out_channels, .cols = cols.size()},
        args.scratch + round_up(4 * patch_floats_, 64));
  }

  ConvShape s_;
  Patches reads_;
  WeightView view_;
  ConvBuffers at_;
  Epilogue epilogue_;
  bool dots_;
  int64_t ns_ = 0, pixel_parts_ = 1, col_parts_ = 1, patch_floats_ = 0;
};

}  // namespace

std::unique_ptr<BoundKernel> make_conv_gemm(const KernelRequest& request, const ConvShape& shape,
                                            const WeightView& weights, ConvBuffers buffers) {
  return std::make_unique<ConvGemm>(request, shape, weights, buffers);
}

}  // namespace poptorch::emulator
