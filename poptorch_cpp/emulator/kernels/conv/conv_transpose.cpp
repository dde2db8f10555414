#include "emulator/kernels/conv/conv_transpose.hpp"

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {
namespace {

class ConvTranspose final : public BoundKernel {
 public:
  ConvTranspose(const KernelRequest& request, std::unique_ptr<BoundKernel> products)
      : products_(std::move(products)),
        epilogue_(request),
        bias_(request.inputs.size() > 2 && request.inputs[2]),
        output_(static_cast<int>(request.inputs.size())),
        channels_(request.outputs[0].shape[1]),
        pixels_(request.outputs[0].elements() / channels_),
        finish_ns_(request.outputs[0].elements() / 8 +
                   epilogue_.estimated_ns(request.outputs[0].elements())),
        parts_(parts_for(finish_ns_, pixels_)) {}
  int phases() const override { return products_->phases() + (bias_ || epilogue_ ? 1 : 0); }
  int tasks(int phase) const override {
    return phase < products_->phases() ? products_->tasks(phase) : static_cast<int>(parts_);
  }
  int64_t scratch_bytes() const override {
    return std::max(products_->scratch_bytes(), epilogue_.scratch_bytes());
  }
  int64_t workspace_bytes() const override { return products_->workspace_bytes(); }
  std::vector<int> prepared_operands() const override { return products_->prepared_operands(); }
  int64_t estimated_ns() const override { return products_->estimated_ns() + finish_ns_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == products_->phases()) return finish(args, part_of(pixels_, parts_, task));
    std::byte* buffers[] = {args.buffers[0], args.buffers[1], args.buffers[output_]};
    KernelArgs own = args;
    own.buffers = buffers;
    products_->run(own, phase, task);
  }

 private:
  void finish(const KernelArgs& args, Range pixels) const {
    float* y = buffer_of<float>(args, output_) + pixels.begin * channels_;
    const float* bias = bias_ ? input_of<float>(args, 2) : nullptr;
    for (int64_t p = 0; bias && p < pixels.size(); ++p) {
#pragma GCC ivdep
      for (int64_t c = 0; c < channels_; ++c) y[p * channels_ + c] += bias[c];
    }
    if (!epilogue_) return;
    epilogue_.run(args, {.first = pixels.begin * channels_, .cols = pixels.size() * channels_},
                  args.scratch);
  }

  std::unique_ptr<BoundKernel> products_;
  Epilogue epilogue_;
  bool bias_;
  int output_;
  int64_t channels_, pixels_, finish_ns_, parts_;
};

}  // namespace

KernelRequest products_of_transpose(const KernelRequest& request) {
  KernelRequest products = request;
  products.epilogue = nullptr;
  products.inputs.resize(2);
  products.input_layouts.resize(2);
  return products;
}

std::unique_ptr<BoundKernel> make_conv_transpose(const KernelRequest& request,
                                                 std::unique_ptr<BoundKernel> products) {
  return std::make_unique<ConvTranspose>(request, std::move(products));
}

}  // namespace poptorch::emulator
