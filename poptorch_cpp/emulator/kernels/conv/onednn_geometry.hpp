// Describes a convolution in oneDNN's terms.
#pragma once

#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/conv/conv_shape.hpp"
#include "emulator/kernels/conv/onednn.hpp"

namespace poptorch::emulator::onednn {

using dnnl::memory;

constexpr double kLeastFlops = 4e6;  // with fewer operations, a task is all overhead
constexpr int64_t kTaskBytes =
    256 * 1024;  // of a task's output, which stays in L2 for the epilogue

// Returns the number of parts of a batch; all are equal, so that one primitive serves all.
inline int64_t parts_of_batch(const ConvShape& s, int64_t image_floats) {
  int64_t parts = std::min<int64_t>(4, s.batch);
  while (s.batch % parts != 0 || 4 * image_floats * s.batch / parts > kTaskBytes) {
    if (parts == s.batch) break;
    ++parts;
  }
  return parts;
}

inline memory::desc of_any_layout(const ir::Shape& shape, ir::DType dtype) {
  return {memory::dims(shape.begin(), shape.end()), type_of(dtype), memory::format_tag::any};
}

// The types of a convolution's tensors; biases have the type of the weights.
struct Types {
  ir::DType x, w, y;
};

// The arguments of a oneDNN primitive, with as many spatial dimensions as the tensors have.
struct Geometry {
  memory::dims strides, dilation, padding;
  memory::desc x, w_plain, w_any, y, bias;
  memory::desc x_any, y_any;  // whose layout oneDNN may choose

  Geometry(const ConvShape& s, int64_t images, int64_t spatial, const Types& types) {
    const auto first = static_cast<size_t>(3 - spatial);
    auto tail = [&](const std::array<int64_t, 3>& all) {
      return memory::dims(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
    };
    auto image = [&](int64_t count, int64_t channels, const std::array<int64_t, 3>& sizes) {
      ir::Shape shape{count, channels};
      for (int64_t size : tail(sizes)) shape.push_back(size);
      return shape;
    };
    auto channels_last = [](const ir::Shape& shape, ir::DType dtype) {
      return describe(shape, memory_strides(shape, Layout::Kind::kChannelsLast), dtype);
    };
    strides = tail(s.strides), padding = tail(s.padding), dilation = tail(s.dilation);
    for (int64_t& d : dilation) --d;
    const ir::Shape x_shape = image(images, s.in_channels, s.in);
    const ir::Shape y_shape = image(images, s.out_channels, s.out);
    x = channels_last(x_shape, types.x), y = channels_last(y_shape, types.y);
    x_any = of_any_layout(x_shape, types.x), y_any = of_any_layout(y_shape, types.y);
    ir::Shape weights = image(s.out_channels, s.group_in(), s.kernel);
    ir::Shape weight_strides = memory_strides(weights, Layout::Kind::kChannelsLast);
    if (s.groups > 1) {
      weights[0] = s.group_out();
      weights.insert(weights.begin(), s.groups);
      weight_strides.insert(weight_strides.begin(), s.group_out() * weight_strides[0]);
    }
    w_plain = describe(weights, weight_strides, types.w);
    w_any = of_any_layout(weights, types.w);
    bias = describe({s.out_channels}, {1}, types.w);
  }
};

}  // namespace poptorch::emulator::onednn
