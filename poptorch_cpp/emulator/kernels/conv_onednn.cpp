#include "emulator/kernels/conv_onednn.hpp"

#include <cstring>

#include "emulator/kernels/layouts.hpp"
#include "emulator/kernels/onednn.hpp"
#include "emulator/kernels/support.hpp"

namespace poptorch::emulator {
namespace {

using dnnl::memory;
using onednn::Primitive;

// A task's output stays in L2 for the epilogue; below so many operations a task is all overhead.
constexpr int64_t kTaskBytes = 256 * 1024;
constexpr double kLeastFlops = 4e6;
constexpr int64_t kLeastPixels = 16;

// The parts of a batch: equal ones, so that one primitive serves all.
int64_t parts_of_batch(const ConvShape& s, int64_t image_floats) {
  int64_t parts = std::min<int64_t>(4, s.batch);
  while (s.batch % parts != 0 || 4 * image_floats * s.batch / parts > kTaskBytes) {
    if (parts == s.batch) break;
    ++parts;
  }
  return parts;
}

// What oneDNN is asked for, with the spatial dimensions that the tensors have.
struct Geometry {
  memory::dims strides, dilation, padding;
  memory::desc x, w_plain, w_any, y, bias;

  Geometry(const ConvShape& s, int64_t images, int64_t spatial) {
    const auto first = static_cast<size_t>(3 - spatial);
    auto tail = [&](const std::array<int64_t, 3>& all) {
      return memory::dims(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
    };
    auto image = [&](int64_t count, int64_t channels, const std::array<int64_t, 3>& sizes) {
      ir::Shape shape{count, channels};
      for (int64_t size : tail(sizes)) shape.push_back(size);
      return shape;
    };
    auto channels_last = [](const ir::Shape& shape) {
      return onednn::describe(shape, memory_strides(shape, Layout::Kind::kChannelsLast));
    };
    strides = tail(s.strides), padding = tail(s.padding), dilation = tail(s.dilation);
    for (int64_t& d : dilation) --d;
    x = channels_last(image(images, s.in_channels, s.in));
    y = channels_last(image(images, s.out_channels, s.out));
    const ir::Shape weights = image(s.out_channels, s.in_channels, s.kernel);
    w_plain = channels_last(weights);
    w_any = {memory::dims(weights.begin(), weights.end()), memory::data_type::f32,
             memory::format_tag::any};
    bias = onednn::describe({s.out_channels}, {1});
  }
};

class OneDnnConv final : public BoundKernel {
 public:
  OneDnnConv(const KernelRequest& request, const ConvShape& shape, bool backward)
      : shape_(shape),
        epilogue_(request),
        backward_(backward),
        bias_(!backward && request.inputs.size() > 2 && request.inputs[2]),
        output_(static_cast<int>(request.inputs.size())),
        spatial_(static_cast<int64_t>(request.inputs[0]->rank()) - 2) {
    image_in_ = shape.in_pixels() / shape.batch * shape.in_channels;
    image_out_ = shape.out_pixels() / shape.batch * shape.out_channels;
    if (backward_) std::swap(image_in_, image_out_);
    parts_ = parts_of_batch(shape, image_out_);
    ns_ =
        static_cast<int64_t>(shape.flops() / 80) + epilogue_.estimated_ns(image_out_ * shape.batch);
  }

  // False when oneDNN has nothing better than loops for this shape.
  bool make() {
    const Geometry g(shape_, images(), spatial_);
    memory::desc weights, scratchpad;
    dnnl::primitive primitive;
    std::string name;
    const bool there = onednn::made([&] {
      const dnnl::convolution_forward::primitive_desc forward(
          onednn::engine(), dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
          g.x, g.w_any, bias_ ? g.bias : memory::desc(), g.y, g.strides, g.dilation, g.padding,
          g.padding, onednn::attributes());
      if (backward_) {
        const dnnl::convolution_backward_data::primitive_desc back(
            onednn::engine(), dnnl::algorithm::convolution_direct, g.x, g.w_any, g.y, g.strides,
            g.dilation, g.padding, g.padding, forward, onednn::attributes());
        weights = back.weights_desc(), scratchpad = back.scratchpad_desc();
        name = back.impl_info_str();
        primitive = dnnl::convolution_backward_data(back);
      } else {
        weights = forward.weights_desc(), scratchpad = forward.scratchpad_desc();
        name = forward.impl_info_str();
        primitive = dnnl::convolution_forward(forward);
      }
    });
    if (!there || name.find("ref") != std::string::npos || name.find("gemm:") == 0) return false;
    std::vector<Primitive::Argument> arguments;
    if (backward_) {
      arguments = {{DNNL_ARG_DIFF_DST, g.y}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, g.x}};
    } else {
      arguments = {{DNNL_ARG_SRC, g.x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, g.y}};
      if (bias_) arguments.push_back({DNNL_ARG_BIAS, g.bias});
    }
    conv_ = std::make_unique<Primitive>(primitive, arguments, scratchpad, tasks(1));
    packed_bytes_ = static_cast<int64_t>(weights.get_size());
    return onednn::made([&] {
      const dnnl::reorder::primitive_desc pack(onednn::engine(), g.w_plain, onednn::engine(),
                                               weights, onednn::attributes());
      pack_ = std::make_unique<Primitive>(
          dnnl::reorder(pack),
          std::vector<Primitive::Argument>{{DNNL_ARG_FROM, g.w_plain}, {DNNL_ARG_TO, weights}},
          pack.scratchpad_desc(), 1);
    });
  }

  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(parts_); }
  int64_t scratch_bytes() const override {
    return round_up(std::max(conv_->scratch_bytes(), pack_->scratch_bytes()), 64) +
           epilogue_.scratch_bytes();
  }
  int64_t workspace_bytes() const override { return packed_bytes_; }
  std::vector<int> prepared_operands() const override { return {1}; }
  int64_t estimated_ns() const override { return ns_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) {
      void* const pointers[] = {args.buffers[1], args.workspace};
      return pack_->run(0, pointers, args.scratch);
    }
    const int64_t first = task * images() * image_out_;
    void* const pointers[] = {buffer_of<float>(args, 0) + task * images() * image_in_,
                              args.workspace, buffer_of<float>(args, output_) + first,
                              bias_ ? args.buffers[2] : nullptr};
    conv_->run(task, pointers, args.scratch);
    if (!epilogue_) return;
    const int64_t own = round_up(std::max(conv_->scratch_bytes(), pack_->scratch_bytes()), 64);
    epilogue_.run(args, {.first = first, .cols = images() * image_out_}, args.scratch + own);
  }

 private:
  int64_t images() const { return shape_.batch / parts_; }

  ConvShape shape_;
  Epilogue epilogue_;
  bool backward_, bias_;
  int output_;
  int64_t spatial_, parts_ = 1, image_in_ = 0, image_out_ = 0, ns_ = 0, packed_bytes_ = 0;
  std::unique_ptr<Primitive> conv_, pack_;
};

std::unique_ptr<BoundKernel> make(const KernelRequest& request, const ConvShape& s, bool backward) {
  if (s.groups != 1 || s.batch == 1 || s.flops() < kLeastFlops) return nullptr;
  if (s.out_pixels() / s.batch < kLeastPixels) return nullptr;
  auto kernel = std::make_unique<OneDnnConv>(request, s, backward);
  if (!kernel->make()) return nullptr;
  return kernel;
}

}  // namespace

std::unique_ptr<BoundKernel> make_onednn_conv(const KernelRequest& request,
                                              const ConvShape& shape) {
  return make(request, shape, false);
}

std::unique_ptr<BoundKernel> make_onednn_grad_input(const KernelRequest& request,
                                                    const ConvShape& shape) {
  return make(request, shape, true);
}

}  // namespace poptorch::emulator
