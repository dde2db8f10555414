// The gradient of a strided convolution's input (products scattered image by image) and of its
// weights (patches against output gradients; parts over pixels summed in order).
#include "emulator/kernels/conv/conv_grad.hpp"

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/base/tile_ops.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kGradPixels = 96;
constexpr int64_t kColumns = 128;
constexpr int64_t kGradDepth = 256;

// Computes dx: for every output pixel, dy · W gives a patch of dx, which is added in its place. One
// task owns an image.
class ScatterGradInput final : public BoundKernel {
 public:
  explicit ScatterGradInput(const ConvShape& shape) : s_(shape), patches_(shape) {}
  int phases() const override { return 2; }
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? s_.groups : s_.batch);
  }
  int64_t scratch_bytes() const override { return 4 * kGradPixels * kColumns; }
  int64_t workspace_bytes() const override { return 4 * group_floats() * s_.groups; }
  int64_t estimated_ns() const override { return static_cast<int64_t>(s_.flops() / 50); }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* packed = reinterpret_cast<float*>(args.workspace);
    const int64_t depth = s_.depth(), out = s_.group_out();
    if (phase == 0) {
      const MatrixView w{input_of<float>(args, 1) + task * out * depth, depth, 1};
      return pack_panels(w, out, depth, 0, divide_up(depth, kPanel), packed + task * group_floats(),
                         out);
    }
    const float* dy = input_of<float>(args, 0);
    float *dx = buffer_of<float>(args, 2), *c = reinterpret_cast<float*>(args.scratch);
    const int64_t in_image = s_.in_pixels() / s_.batch * s_.in_channels;
    const int64_t image = s_.out_pixels() / s_.batch;
    std::fill_n(dx + task * in_image, in_image, 0.0f);
    for (int64_t group = 0; group < s_.groups; ++group) {
      for (int64_t p = task * image; p < (task + 1) * image; p += kGradPixels) {
        const int64_t rows = std::min(kGradPixels, (task + 1) * image - p);
        const MatrixView a{dy + p * s_.out_channels + group * out, s_.out_channels, 1};
        for (int64_t j = 0; j < depth; j += kColumns) {
          const int64_t cols = std::min(kColumns, depth - j);
          gemm_packed(rows, cols, out, a, packed + group * group_floats() + j * out, out, nullptr,
                      c, kColumns, false, nullptr);
          for (int64_t i = 0; i < rows; ++i) {
            patches_.add(dx, {p + i, p + i + 1}, group, j, j + cols, c + i * kColumns);
          }
        }
      }
    }
  }

 private:
  int64_t group_floats() const { return packed_floats(s_.group_out(), s_.depth()); }
  ConvShape s_;
  Patches patches_;
};

// T is float, or uint16_t for halves: then the sums are in the workspace, and rounded at the end.
template <typename T>
class GroupedGradWeight final : public BoundKernel {
 public:
  explicit GroupedGradWeight(const ConvShape& shape, ir::DType dtype = ir::DType::kF32)
      : s_(shape), patches_(shape), element_(element_of(dtype)), store_(store_fn(dtype)) {
    const int64_t wanted = parts_for(static_cast<int64_t>(s_.flops() / 60), 32);
    col_parts_ = std::clamp<int64_t>(divide_up(s_.depth(), 96), 1, wanted);
    pixel_parts_ = std::clamp<int64_t>(wanted / (col_parts_ * s_.groups), 1,
                                       std::max<int64_t>(s_.out_pixels() / kGradDepth, 1));
    pixel_parts_ = std::min<int64_t>(pixel_parts_, 8);
    by_parts_ = repays_parts(s_.group_out(), std::min(kColumns, s_.depth()),
                             std::min(kGradDepth, s_.out_pixels()), element_, element_);
  }
  int phases() const override { return in_place() ? 1 : 2; }
  int tasks(int phase) const override {
    if (phase == 0) return static_cast<int>(col_parts_ * pixel_parts_ * s_.groups);
    return static_cast<int>(divide_up(elements(), kSum));
  }
  int64_t scratch_bytes() const override {
    const int64_t packing = gemm_scratch_floats(s_.group_out(), kGradDepth);
    return std::max(4 * (2 * kGradDepth * kColumns + packing), 4 * kSum);
  }
  int64_t workspace_bytes() const override { return in_place() ? 0 : 4 * partial_floats(); }
  int64_t estimated_ns() const override { return static_cast<int64_t>(s_.flops() / 60); }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 1) return finish(args, task);
    const int64_t col_part = task % col_parts_, rest = task / col_parts_;
    const int64_t group = rest % s_.groups, pixel_part = rest / s_.groups;
    const Range cols = part_of(s_.depth(), col_parts_, col_part, kPanel);
    const Range pixels = part_of(s_.out_pixels(), pixel_parts_, pixel_part);
    float* sums = in_place() ? buffer_of<float>(args, 2)
                             : reinterpret_cast<float*>(args.workspace) + pixel_part * elements();
    T* patches = reinterpret_cast<T*>(args.scratch);
    T* packed = patches + kGradDepth * kColumns;
    auto* packing = reinterpret_cast<float*>(packed + kGradDepth * kColumns);
    const T *x = input_of<T>(args, 0), *dy = input_of<T>(args, 1);
    for (int64_t j = cols.begin; j < cols.end; j += kColumns) {
      const int64_t width = std::min(kColumns, cols.end - j);
      for (int64_t p = pixels.begin; p < pixels.end; p += kGradDepth) {
        const int64_t count = std::min(kGradDepth, pixels.end - p);
        OperandView b(patches, width, 1, element_);
        if (s_.pointwise()) {
          const T* from = x + p * s_.in_channels + group * s_.group_in() + j;
          b = OperandView(from, s_.in_channels, 1, element_);
        } else {
          patches_.read(x, {p, p + count}, group, j, j + width, patches);
        }
        pack_panels(b, count, width, 0, divide_up(width, kPanel), packed, count);
        const OperandView a(dy + p * s_.out_channels + group * s_.group_out(), 1, s_.out_channels,
                            element_);
        gemm_packed(s_.group_out(), width, count, a, packed, count, nullptr,
                    sums + group * s_.group_out() * s_.depth() + j, s_.depth(), p > pixels.begin,
                    packing, element_, nullptr, nullptr, by_parts_);
      }
    }
  }

 private:
  static constexpr int64_t kSum = 8192;  // elements a task of the second phase adds up
  bool in_place() const { return pixel_parts_ == 1 && element_ == Element::kFloat; }
  int64_t elements() const { return s_.out_channels * s_.depth(); }
  int64_t partial_floats() const { return elements() * pixel_parts_; }

  void finish(const KernelArgs& args, int64_t task) const {
    const int64_t first = task * kSum, count = std::min(kSum, elements() - first);
    const float* parts = reinterpret_cast<const float*>(args.workspace) + first;
    const bool floats = element_ == Element::kFloat;
    T* to = buffer_of<T>(args, 2) + first;
    float* dw = reinterpret_cast<float*>(floats ? reinterpret_cast<std::byte*>(to) : args.scratch);
    std::copy_n(parts, count, dw);
    for (int64_t part = 1; part < pixel_parts_; ++part) {
      const float* more = parts + part * elements();
      for (int64_t i = 0; i < count; ++i) dw[i] += more[i];
    }
    if (floats) return;
    MicroArgs rounding;
    rounding.src[0] = dw, rounding.dst[0] = to;
    store_(rounding, count);
  }

  ConvShape s_;
  Patches patches_;
  Element element_;
  MicroFn store_;
  int64_t col_parts_ = 1, pixel_parts_ = 1;
  bool by_parts_ = false;
};

}  // namespace

std::unique_ptr<BoundKernel> make_scatter_grad_input(const ConvShape& shape) {
  return std::make_unique<ScatterGradInput>(shape);
}
std::unique_ptr<BoundKernel> make_conv_grad_weight(const ConvShape& shape) {
  return std::make_unique<GroupedGradWeight<float>>(shape);
}
std::unique_ptr<BoundKernel> make_conv_grad_weight_halves(const ConvShape& shape, ir::DType dtype) {
  return std::make_unique<GroupedGradWeight<uint16_t>>(shape, dtype);
}

}  // namespace poptorch::emulator
