// Computes the gradient of the weights of a convolution. Each task sums over some images, in
// oneDNN's layout; a second phase adds the tasks' sums in order.
#include "emulator/kernels/conv/conv_onednn.hpp"
#include "emulator/kernels/conv/onednn_geometry.hpp"

namespace poptorch::emulator {
namespace {

using onednn::Primitive;

constexpr int64_t kLeastTaskPixels = 256;  // of a task, for each of which the sums are read
constexpr int64_t kMostSums = 8 << 20;     // of all tasks: a workspace of 32 MiB

class OneDnnGradWeight final : public BoundKernel {
 public:
  OneDnnGradWeight(const KernelRequest& request, const ConvShape& shape)
      : shape_(shape),
        from_(request.inputs[0]->dtype),
        to_(request.outputs[0].dtype),
        spatial_(static_cast<int64_t>(request.inputs[0]->rank()) - 2),
        image_x_(shape.in_pixels() / shape.batch * shape.in_channels),
        image_dy_(shape.out_pixels() / shape.batch * shape.out_channels),
        parts_(onednn::parts_of_batch(shape, image_dy_)),
        ns_(static_cast<int64_t>(shape.flops() / 60)) {}

  // Returns false when oneDNN has nothing better than loops for this shape.
  bool make() {
    const onednn::Geometry g(shape_, images(), spatial_, {from_, ir::DType::kF32, from_});
    const onednn::Geometry hint(shape_, images(), spatial_, {from_, from_, from_});
    const onednn::Geometry made(shape_, images(), spatial_, {from_, to_, from_});
    dnnl::memory::desc x, dy, dw, scratchpad;
    dnnl::primitive primitive;
    std::string name;
    const bool there = onednn::made([&] {
      const dnnl::convolution_forward::primitive_desc forward(
          onednn::engine(), dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
          hint.x_any, hint.w_any, hint.y_any, g.strides, g.dilation, g.padding, g.padding,
          onednn::attributes());
      const dnnl::convolution_backward_weights::primitive_desc back(
          onednn::engine(), dnnl::algorithm::convolution_direct, g.x_any, g.w_any, g.y_any,
          g.strides, g.dilation, g.padding, g.padding, forward, onednn::attributes());
      x = back.src_desc(), dy = back.diff_dst_desc(), dw = back.diff_weights_desc();
      scratchpad = back.scratchpad_desc();
      name = back.impl_info_str();
      primitive = dnnl::convolution_backward_weights(back);
    });
    if (!there || !onednn::is_direct(name)) return false;
    sum_ = std::make_unique<Primitive>(
        primitive,
        std::vector<Primitive::Argument>{
            {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw}},
        scratchpad, tasks(0));
    if (x != g.x) take_x_ = onednn::make_reorder(g.x, x, tasks(0));
    if (dy != g.y) take_dy_ = onednn::make_reorder(g.y, dy, tasks(0));
    give_ = onednn::make_reorder(dw, made.w_plain, 1);
    x_bytes_ = take_x_ ? round_up(static_cast<int64_t>(x.get_size()), 64) : 0;
    dy_bytes_ = take_dy_ ? round_up(static_cast<int64_t>(dy.get_size()), 64) : 0;
    dw_bytes_ = round_up(static_cast<int64_t>(dw.get_size()), 64);
    return true;
  }

  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? static_cast<int>(parts_) : 1; }
  int64_t scratch_bytes() const override { return own_bytes() + x_bytes_ + dy_bytes_; }
  int64_t workspace_bytes() const override { return dw_bytes_ * parts_; }
  int64_t estimated_ns() const override { return ns_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 1) return finish(args);
    std::byte* const taken = args.scratch + own_bytes();
    const int64_t bytes = ir::size_of(from_);
    void* x = args.buffers[0] + task * images() * image_x_ * bytes;
    void* dy = args.buffers[1] + task * images() * image_dy_ * bytes;
    if (take_x_) take_x_->run(task, {x, taken}, args.scratch), x = taken;
    if (take_dy_) take_dy_->run(task, {dy, taken + x_bytes_}, args.scratch), dy = taken + x_bytes_;
    sum_->run(task, {x, dy, args.workspace + task * dw_bytes_}, args.scratch);
  }

 private:
  int64_t images() const { return shape_.batch / parts_; }
  int64_t own_bytes() const { return onednn::shared_scratch({&sum_, &give_, &take_x_, &take_dy_}); }
  void finish(const KernelArgs& args) const {
    auto* total = reinterpret_cast<float*>(args.workspace);
    const int64_t count = dw_bytes_ / 4;
    for (int64_t part = 1; part < parts_; ++part) {
      const float* more = total + part * count;
      for (int64_t i = 0; i < count; ++i) total[i] += more[i];
    }
    give_->run(0, {args.workspace, args.buffers[2]}, args.scratch);
  }

  ConvShape shape_;
  ir::DType from_, to_;
  int64_t spatial_, image_x_, image_dy_, parts_, ns_;
  int64_t x_bytes_ = 0, dy_bytes_ = 0, dw_bytes_ = 0;
  std::unique_ptr<Primitive> sum_, give_;
  std::unique_ptr<Primitive> take_x_, take_dy_;  // into oneDNN's layout, where it differs
};

}  // namespace

// The project's loops are as fast for single pixels, and where a task has few pixels for large
// sums.
bool suits_onednn_weights(const ConvShape& shape) {
  if (shape.batch == 1 || shape.flops() < onednn::kLeastFlops) return false;
  if (shape.groups > 1) return true;
  const int64_t image = shape.out_pixels() / shape.batch;
  const int64_t parts = onednn::parts_of_batch(shape, image * shape.out_channels);
  return shape.taps() > 1 && shape.out_pixels() / parts >= kLeastTaskPixels &&
         parts * shape.out_channels * shape.depth() <= kMostSums;
}

std::unique_ptr<BoundKernel> make_onednn_grad_weight(const KernelRequest& request,
                                                     const ConvShape& shape) {
  if (!suits_onednn_weights(shape)) return nullptr;
  auto kernel = std::make_unique<OneDnnGradWeight>(request, shape);
  if (!kernel->make()) return nullptr;
  return kernel;
}

}  // namespace poptorch::emulator
