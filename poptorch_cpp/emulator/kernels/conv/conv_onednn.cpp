#include "emulator/kernels/conv/conv_onednn.hpp"

#include <algorithm>

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/conv/onednn_geometry.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

using dnnl::memory;
using onednn::Primitive;

constexpr int64_t kLeastPixels = 16;

// On channels-last layouts, oneDNN sums an output pixel's whole patch at once. On blocked channels
// it sums a block at a time, as torch does, with a third of the rounding error. This matters in the
// forward direction, where an error may change the side of a ReLU.
bool in_blocks(const ConvShape& s) { return s.taps() > 1 && s.in_channels >= 16; }

class OneDnnConv final : public BoundKernel {
 public:
  OneDnnConv(const KernelRequest& request, const ConvShape& shape, bool backward)
      : shape_(shape),
        epilogue_(request),
        from_(request.inputs[0]->dtype),
        to_(request.outputs[0].dtype),
        backward_(backward),
        bias_(!backward && request.inputs.size() > 2 && request.inputs[2]),
        output_(static_cast<int>(request.inputs.size())),
        spatial_(static_cast<int64_t>(request.inputs[0]->rank()) - 2) {
    image_in_ = shape.in_pixels() / shape.batch * shape.in_channels;
    image_out_ = shape.out_pixels() / shape.batch * shape.out_channels;
    if (backward_) std::swap(image_in_, image_out_);
    parts_ = onednn::parts_of_batch(shape, image_out_);
    ns_ =
        static_cast<int64_t>(shape.flops() / 80) + epilogue_.estimated_ns(image_out_ * shape.batch);
  }

  // Returns false when oneDNN has nothing better than loops for this shape.
  bool make() {
    const onednn::Geometry g(shape_, images(), spatial_,
                             {backward_ ? to_ : from_, from_, backward_ ? from_ : to_});
    const onednn::Geometry plain(shape_, images(), spatial_, {from_, from_, from_});
    const onednn::Geometry& hint = backward_ ? plain : g;
    const bool blocks = !backward_ && in_blocks(shape_);
    memory::desc from, weights, to, scratchpad;
    dnnl::primitive primitive;
    std::string name;
    const bool there = onednn::made([&] {
      const dnnl::convolution_forward::primitive_desc forward(
          onednn::engine(), dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
          blocks ? hint.x_any : hint.x, g.w_any, bias_ ? g.bias : memory::desc(),
          blocks ? hint.y_any : hint.y, g.strides, g.dilation, g.padding, g.padding,
          onednn::attributes());
      if (backward_) {
        const dnnl::convolution_backward_data::primitive_desc back(
            onednn::engine(), dnnl::algorithm::convolution_direct, g.x, g.w_any, g.y, g.strides,
            g.dilation, g.padding, g.padding, forward, onednn::attributes());
        from = back.diff_dst_desc(), weights = back.weights_desc(), to = back.diff_src_desc();
        scratchpad = back.scratchpad_desc();
        name = back.impl_info_str();
        primitive = dnnl::convolution_backward_data(back);
      } else {
        from = forward.src_desc(), weights = forward.weights_desc(), to = forward.dst_desc();
        scratchpad = forward.scratchpad_desc();
        name = forward.impl_info_str();
        primitive = dnnl::convolution_forward(forward);
      }
    });
    if (!there || !onednn::is_direct(name)) return false;
    std::vector<Primitive::Argument> arguments{{backward_ ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC, from},
                                               {DNNL_ARG_WEIGHTS, weights},
                                               {backward_ ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST, to}};
    if (bias_) arguments.push_back({DNNL_ARG_BIAS, g.bias});
    conv_ = std::make_unique<Primitive>(primitive, arguments, scratchpad, tasks(1));
    pack_ = onednn::make_reorder(g.w_plain, weights, 1);
    packed_bytes_ = static_cast<int64_t>(weights.get_size());
    const memory::desc &held_from = backward_ ? g.y : g.x, &held_to = backward_ ? g.x : g.y;
    if (from != held_from) {
      take_ = onednn::make_reorder(held_from, from, tasks(1));
      taken_bytes_ = round_up(static_cast<int64_t>(from.get_size()), 64);
    }
    if (to != held_to) {
      give_ = onednn::make_reorder(to, held_to, tasks(1));
      given_bytes_ = round_up(static_cast<int64_t>(to.get_size()), 64);
    }
    return true;
  }

  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(parts_); }
  int64_t scratch_bytes() const override {
    return own_bytes() + taken_bytes_ + given_bytes_ + epilogue_.scratch_bytes();
  }
  int64_t workspace_bytes() const override { return packed_bytes_; }
  std::vector<int> prepared_operands() const override { return {1}; }
  int64_t estimated_ns() const override { return ns_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) return pack_->run(0, {args.buffers[1], args.workspace}, args.scratch);
    const int64_t first = task * images() * image_out_;
    std::byte* const taken = args.scratch + own_bytes();
    std::byte* const given = taken + taken_bytes_;
    void* x = args.buffers[0] + task * images() * image_in_ * ir::size_of(from_);
    void* const y = args.buffers[output_] + first * ir::size_of(to_);
    if (take_) take_->run(task, {x, taken}, args.scratch), x = taken;
    conv_->run(task, {x, args.workspace, give_ ? given : y, bias_ ? args.buffers[2] : nullptr},
               args.scratch);
    if (give_) give_->run(task, {given, y}, args.scratch);
    if (!epilogue_) return;
    epilogue_.run(args, {.first = first, .cols = images() * image_out_}, given + given_bytes_);
  }

 private:
  int64_t images() const { return shape_.batch / parts_; }
  // Returns the scratch of the primitives, which run one at a time.
  int64_t own_bytes() const { return onednn::shared_scratch({&conv_, &pack_, &take_, &give_}); }

  ConvShape shape_;
  Epilogue epilogue_;
  ir::DType from_, to_;
  bool backward_, bias_;
  int output_;
  int64_t spatial_, parts_ = 1, image_in_ = 0, image_out_ = 0, ns_ = 0, packed_bytes_ = 0;
  int64_t taken_bytes_ = 0, given_bytes_ = 0;
  std::unique_ptr<Primitive> conv_, pack_;
  std::unique_ptr<Primitive> take_, give_;  // into oneDNN's layout and out of it, where they differ
};

std::unique_ptr<BoundKernel> make(const KernelRequest& request, const ConvShape& s, bool backward) {
  if (!suits_onednn(s)) return nullptr;
  auto kernel = std::make_unique<OneDnnConv>(request, s, backward);
  if (!kernel->make()) return nullptr;
  return kernel;
}

}  // namespace

bool has_primitives(const KernelRequest& request) {
  const ir::DType made = request.outputs[0].dtype;
  const GemmRoutines& gemm = kernel_set().gemm;
  return (gemm.multiplies_matrices || gemm.multiplies_pairs) &&
         (made == ir::DType::kBF16 || made == ir::DType::kF32) &&
         std::all_of(request.inputs.begin(), request.inputs.end(),
                     [](const auto& t) { return !t || t->dtype == ir::DType::kBF16; });
}

bool suits_onednn(const ConvShape& s) {
  return s.batch > 1 && s.flops() >= onednn::kLeastFlops &&
         s.out_pixels() / s.batch >= kLeastPixels;
}

std::unique_ptr<BoundKernel> make_onednn_conv(const KernelRequest& request,
                                              const ConvShape& shape) {
  return make(request, shape, false);
}

std::unique_ptr<BoundKernel> make_onednn_grad_input(const KernelRequest& request,
                                                    const ConvShape& shape) {
  return make(request, shape, true);
}

}  // namespace poptorch::emulator
