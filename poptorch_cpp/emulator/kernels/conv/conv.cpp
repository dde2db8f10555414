// Kernel rows of the convolutions. Activations and weights are channels-last, so that a kernel
// position is a matrix: [in, out] for the forward product, [out, in] for the gradients.
#include <optional>

#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/panels.hpp"
#include "emulator/kernels/base/stored.hpp"
#include "emulator/kernels/conv/conv_depthwise.hpp"
#include "emulator/kernels/conv/conv_gemm.hpp"
#include "emulator/kernels/conv/conv_grad.hpp"
#include "emulator/kernels/conv/conv_half_partials.hpp"
#include "emulator/kernels/conv/conv_halves.hpp"
#include "emulator/kernels/conv/conv_onednn.hpp"
#include "emulator/kernels/conv/conv_transpose.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

bool by_channels(const ConvShape& shape) { return shape.by_channels(kernel_set().lanes); }

void choose_channels_last(KernelRequest& request) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const bool image = request.inputs[i] && request.inputs[i]->rank() >= 3;
    request.input_layouts[i].kind = image ? Layout::Kind::kChannelsLast : Layout::Kind::kPlain;
  }
  for (Layout& layout : request.output_layouts) layout.kind = Layout::Kind::kChannelsLast;
}

ConvShape shape_of_conv(const KernelRequest& request) {
  return ConvShape::of(request, request.inputs[0]->shape, request.inputs[1]->shape,
                       request.outputs[0].shape);
}

// Where the kernel would be a product with packed weights, they are held in panels.
void choose_layouts_of_conv(KernelRequest& request) {
  choose_channels_last(request);
  const auto shape = shape_of_conv(request);
  if (may_hold_panels(request, shape.group_out()) && !by_channels(shape) && !suits_onednn(shape)) {
    request.input_layouts[1].kind = Layout::Kind::kPanelsOfRows;
  }
}

bool channels_last(const KernelRequest& request) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const bool image = request.inputs[i] && request.inputs[i]->rank() >= 3;
    if (i == 1 && request.input_layouts[i].is_panels()) continue;
    if (image && request.input_layouts[i].kind != Layout::Kind::kChannelsLast) return false;
  }
  return request.output_layouts[0].kind == Layout::Kind::kChannelsLast &&
         request.outputs[0].elements() > 0;
}

WeightView forward_weights(const ConvShape& shape) {
  return {.matrix = {nullptr, 1, shape.depth()},
          .tap_stride = shape.group_in(),
          .group_stride = shape.group_out() * shape.depth()};
}

std::unique_ptr<BoundKernel> bind_conv(const KernelRequest& request) {
  if (!channels_last(request)) return nullptr;
  const auto shape = shape_of_conv(request);
  if (has_half_partials(request)) return make_half_partials_conv(request, shape);
  if (by_channels(shape)) {
    if (auto kernel = make_depthwise(request, shape)) return kernel;
  }
  if (auto kernel = make_onednn_conv(request, shape)) return kernel;
  WeightView weights = forward_weights(shape);
  weights.in_panels = request.input_layouts[1].is_panels();
  const bool bias = request.inputs.size() > 2 && request.inputs[2];
  return make_conv_gemm(request, shape, weights,
                        {.bias = bias ? 2 : -1, .y = static_cast<int>(request.inputs.size())});
}

// Binds a kernel for floats that repays the conversion of halves.
std::unique_ptr<BoundKernel> bind_fast_conv(const KernelRequest& request) {
  const auto shape = shape_of_conv(request);
  return by_channels(shape) ? make_depthwise(request, shape) : make_onednn_conv(request, shape);
}

// Returns whether products of matrices of bfloat16, or of float16 by parts, repay the gathering of
// patches. Pixels are read in place, which takes fewer columns to repay.
bool repays_matrices(ir::DType dtype, const ConvShape& shape) {
  const bool in_place = shape.pointwise();
  const int64_t least_out = in_place ? 32 : 64, least_depth_of_parts = in_place ? 48 : 64;
  if (shape.group_out() < least_out) return false;
  if (dtype == ir::DType::kF16) {
    return shape.depth() >= least_depth_of_parts &&
           repays_parts(shape.out_pixels(), shape.group_out(), shape.depth(), Element::kHalf,
                        Element::kHalf);
  }
  return dtype == ir::DType::kBF16 && kernel_set().gemm.multiplies_matrices &&
         shape.depth() % 2 == 0;
}

using MakePrimitive = std::unique_ptr<BoundKernel> (*)(const KernelRequest&, const ConvShape&);
using ShapeOf = ConvShape (*)(const KernelRequest&);
// Binds a primitive of oneDNN on bfloat16, if it has one for the request.
template <MakePrimitive make, ShapeOf shape_of>
std::unique_ptr<BoundKernel> bind_primitive(const KernelRequest& request) {
  if (!channels_last(request) || has_half_partials(request)) return nullptr;
  const ConvShape shape = shape_of(request);
  if (!has_primitives(request) || shape.depthwise()) return nullptr;
  return make(request, shape);
}

// Convolutions of one half type run on halves, except where oneDNN has a primitive for floats that
// is faster.
std::unique_ptr<BoundKernel> bind_conv_halves(const KernelRequest& request) {
  if (!has_one_half_type(request) || !channels_last(request)) return nullptr;
  const auto shape = shape_of_conv(request);
  if (shape.depthwise()) {
    if (auto kernel = make_depthwise_halves(request, shape)) return kernel;
  }
  const int sums = sums_of_halves(request.outputs[0].dtype, shape);
  if (sums == 1 && !repays_matrices(request.inputs[0]->dtype, shape)) {
    if (auto kernel = bind_widened(request, bind_fast_conv)) return kernel;
  }
  return make_conv_halves(request, shape, forward_weights(shape));
}

std::unique_ptr<BoundKernel> bind_conv_of_type(const KernelRequest& request) {
  constexpr BindFn kPrimitive = bind_primitive<make_onednn_conv, shape_of_conv>;
  if (auto kernel = bind_with_halves<kPrimitive>(request)) return kernel;
  auto kernel = has_half_partials(request) ? nullptr : bind_with_halves<bind_conv_halves>(request);
  return kernel ? std::move(kernel) : bind_floats<bind_conv>(request);
}

ConvShape shape_of_grad_input(const KernelRequest& request) {
  return ConvShape::of(request, request.outputs[0].shape, request.inputs[1]->shape,
                       request.inputs[0]->shape);
}

// The gradient of the input at stride 1: a convolution of dy with flipped weights.
struct FlippedConv {
  ConvShape shape;
  WeightView weights;
};
std::optional<FlippedConv> flipped(const ConvShape& shape) {
  FlippedConv made{.shape = shape,
                   .weights = {.matrix = {nullptr, shape.depth(), 1},
                               .tap_stride = shape.group_in(),
                               .group_stride = shape.group_out() * shape.depth(),
                               .flipped = true}};
  for (int d = 0; d < 3; ++d) {
    int64_t& padding = made.shape.padding[d];
    padding = shape.dilation[d] * (shape.kernel[d] - 1) - shape.padding[d];
    if (shape.strides[d] != 1 || padding < 0) return std::nullopt;
  }
  std::swap(made.shape.in, made.shape.out);
  std::swap(made.shape.in_channels, made.shape.out_channels);
  return made;
}

std::unique_ptr<BoundKernel> bind_grad_input(const KernelRequest& request) {
  if (!channels_last(request)) return nullptr;
  const auto shape = shape_of_grad_input(request);
  if (has_half_partials(request)) return make_half_partials_grad_input(shape);
  if (by_channels(shape)) {
    if (auto kernel = make_depthwise_grad_input(shape)) return kernel;
  }
  if (auto kernel = make_onednn_grad_input(request, shape)) return kernel;
  const auto conv = flipped(shape);
  if (!conv) return make_scatter_grad_input(shape);
  return make_conv_gemm(request, conv->shape, conv->weights, {.y = 2});
}

std::unique_ptr<BoundKernel> bind_grad_input_halves(const KernelRequest& request) {
  if (!has_one_half_type(request) || !channels_last(request) || has_half_partials(request)) {
    return nullptr;
  }
  const ir::DType dtype = request.outputs[0].dtype;
  const auto shape = shape_of_grad_input(request);
  const auto conv = flipped(shape);
  if (!conv || by_channels(shape)) return nullptr;
  if (dtype == ir::DType::kBF16 && conv->shape.group_in() % 2 != 0) return nullptr;
  if (suits_onednn(shape) && !repays_matrices(dtype, conv->shape)) return nullptr;
  return make_conv_halves(request, conv->shape, conv->weights);
}
std::unique_ptr<BoundKernel> bind_grad_input_of_type(const KernelRequest& request) {
  constexpr BindFn kPrimitive = bind_primitive<make_onednn_grad_input, shape_of_grad_input>;
  if (auto kernel = bind_with_halves<kPrimitive>(request)) return kernel;
  auto kernel = bind_with_halves<bind_grad_input_halves>(request);
  return kernel ? std::move(kernel) : bind_floats<bind_grad_input>(request);
}

std::unique_ptr<BoundKernel> bind_transpose(const KernelRequest& request) {
  auto products = bind_grad_input(products_of_transpose(request));
  return products ? make_conv_transpose(request, std::move(products)) : nullptr;
}

std::unique_ptr<BoundKernel> bind_transpose_of_bfloats(const KernelRequest& request) {
  constexpr BindFn kPrimitive = bind_primitive<make_onednn_grad_input, shape_of_grad_input>;
  auto products = kPrimitive(products_of_transpose(request));
  return products ? make_conv_transpose(request, std::move(products)) : nullptr;
}
// The sums of bfloat16 become floats, to which the bias is added.
std::unique_ptr<BoundKernel> bind_transpose_of_type(const KernelRequest& request) {
  constexpr StoredBuffers kProducts{.operands = 0b11, .results = 0};
  return bind_stored_forms(request, kProducts,
                           {.floats = bind_transpose, .bfloats = bind_transpose_of_bfloats});
}

ConvShape shape_of_grad_weight(const KernelRequest& request) {
  return ConvShape::of(request, request.inputs[0]->shape, request.outputs[0].shape,
                       request.inputs[1]->shape);
}

std::unique_ptr<BoundKernel> bind_grad_weight(const KernelRequest& request) {
  if (!channels_last(request)) return nullptr;
  const auto shape = shape_of_grad_weight(request);
  if (has_half_partials(request)) return make_half_partials_grad_weight(shape);
  if (by_channels(shape)) return make_depthwise_grad_weight(shape);
  if (auto kernel = make_onednn_grad_weight(request, shape)) return kernel;
  return make_conv_grad_weight(shape);
}

std::unique_ptr<BoundKernel> bind_grad_weight_halves(const KernelRequest& request) {
  if (!has_one_half_type(request) || !channels_last(request) || has_half_partials(request)) {
    return nullptr;
  }
  const ir::DType dtype = request.outputs[0].dtype;
  const auto shape = shape_of_grad_weight(request);
  if (by_channels(shape)) return nullptr;
  if (suits_onednn_weights(shape) && !repays_matrices(dtype, shape)) return nullptr;
  return make_conv_grad_weight_halves(shape, dtype);
}
std::unique_ptr<BoundKernel> bind_grad_weight_of_type(const KernelRequest& request) {
  constexpr BindFn kPrimitive = bind_primitive<make_onednn_grad_weight, shape_of_grad_weight>;
  if (auto kernel = bind_with_halves<kPrimitive>(request)) return kernel;
  auto kernel = bind_with_halves<bind_grad_weight_halves>(request);
  return kernel ? std::move(kernel) : bind_floats<bind_grad_weight>(request);
}

}  // namespace

void add_conv_kernels(KernelTable& table) {
  table.add({.op = "conv",
             .bind = bind_conv_of_type,
             .choose_layouts = choose_layouts_of_conv,
             .takes_epilogue = true,
             .reads_halves = true});
  table.add({.op = "conv_transpose",
             .bind = bind_transpose_of_type,
             .choose_layouts = choose_channels_last,
             .takes_epilogue = true,
             .reads_halves = true});
  table.add({.op = "conv_grad_input",
             .bind = bind_grad_input_of_type,
             .choose_layouts = choose_channels_last,
             .reads_halves = true});
  table.add({.op = "conv_grad_weight",
             .bind = bind_grad_weight_of_type,
             .choose_layouts = choose_channels_last,
             .reads_halves = true});
}

}  // namespace poptorch::emulator
