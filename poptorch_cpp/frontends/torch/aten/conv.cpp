// aten rows of convolutions and pools.
#include <algorithm>
#include <string>

#include "frontends/torch/aten/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Returns a list argument of `count` numbers; a single number is repeated.
Ints spread(Call& c, std::string_view argument, size_t count, int64_t otherwise) {
  Ints values = c.ints(argument);
  if (values.empty()) values.push_back(otherwise);
  if (values.size() == 1) values.resize(count, values[0]);
  return values;
}

// Adds a batch dimension in front of images that lack one, which torch accepts.
Val batched(Call& c, Val x, size_t spatial) {
  if (x.type().rank() == static_cast<int64_t>(spatial) + 2) return x;
  if (x.type().rank() != static_cast<int64_t>(spatial) + 1) {
    c.fail(support::str("expects a tensor of ", spatial + 1, " or ", spatial + 2,
                        " dimensions but got shape ", ir::shape_text(x.type().shape), "."));
  }
  Shape shape = x.type().shape;
  shape.insert(shape.begin(), 1);
  return c.reshape(x, shape);
}

Val like_input(Call& c, Val y, const TensorValue& input) {
  if (y.type().rank() == input.rank()) return y;
  return c.reshape(y, Shape(y.type().shape.begin() + 1, y.type().shape.end()));
}

struct Operands {
  TensorValue input;
  DType dtype;
  Val x, weight;
  Value* bias;
};

Operands operands(Call& c, size_t spatial) {
  std::vector<size_t> given{0, 1};
  if (c.given(2)) given.push_back(2);
  const DType dtype = layer_type(c, given);
  return {c.tensor(0), dtype, batched(c, c.operand(0, dtype), spatial), c.operand(1, dtype),
          c.given(2) ? c.operand(2, dtype).value : nullptr};
}

Val conv_op(Call& c, const Operands& o, Val x, const Ints& padding) {
  const size_t spatial = padding.size();
  return c.emit("conv", {x, o.weight, o.bias},
                {{"strides", spread(c, "stride", spatial, 1)},
                 {"padding", padding},
                 {"dilation", spread(c, "dilation", spatial, 1)},
                 {"groups", c.integer("groups", 1)}});
}

// Convolves with padding="same": if the total is odd, the high end gets one more.
Val conv_same(Call& c, const Operands& o) {
  const auto spatial = static_cast<size_t>(o.x.type().rank()) - 2;
  const Ints dilation = spread(c, "dilation", spatial, 1);
  Ints padding(spatial), low(spatial + 2, 0), high(spatial + 2, 0);
  bool uneven = false;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t total = dilation[i] * (o.weight.type().shape[i + 2] - 1);
    padding[i] = total / 2;
    high[i + 2] = total % 2;
    uneven |= total % 2 != 0;
  }
  const Val x = uneven ? c.emit("pad", {o.x}, {{"low", low}, {"high", high}}) : o.x;
  return conv_op(c, o, x, padding);
}

Rule conv(size_t spatial) {
  return [spatial](Call& c) -> Values {
    const Operands o = operands(c, spatial);
    return {
        {like_input(c, conv_op(c, o, o.x, spread(c, "padding", spatial, 0)), o.input), o.dtype}};
  };
}

Rule conv_with_padding_mode(size_t spatial) {
  return [spatial](Call& c) -> Values {
    const Operands o = operands(c, spatial);
    const bool same = c.text("padding") == "same";
    const Val y = same ? conv_same(c, o) : conv_op(c, o, o.x, Ints(spatial, 0));
    return {{like_input(c, y, o.input), o.dtype}};
  };
}

Values transposed(Call& c, size_t spatial) {
  const Operands o = operands(c, spatial);
  const Val y = c.emit("conv_transpose", {o.x, o.weight, o.bias},
                       {{"strides", spread(c, "stride", spatial, 1)},
                        {"padding", spread(c, "padding", spatial, 0)},
                        {"output_padding", spread(c, "output_padding", spatial, 0)},
                        {"dilation", spread(c, "dilation", spatial, 1)},
                        {"groups", c.integer("groups", 1)}});
  return {{like_input(c, y, o.input), o.dtype}};
}

// Emits aten::convolution of any rank, transposed or not.
Values convolution(Call& c) {
  const auto spatial = static_cast<size_t>(c.tensor(1).rank()) - 2;
  return c.flag("transposed") ? transposed(c, spatial) : conv(spatial)(c);
}

Values max_pool(Call& c, size_t spatial) {
  const TensorValue input = c.tensor(0);
  const Ints kernel = spread(c, "kernel_size", spatial, 1);
  const Ints stride = c.ints("stride").empty() ? kernel : spread(c, "stride", spatial, 1);
  const Val y = c.emit("max_pool", {batched(c, c.val(input.value), spatial)},
                       {{"kernel", kernel},
                        {"strides", stride},
                        {"padding", spread(c, "padding", spatial, 0)},
                        {"dilation", spread(c, "dilation", spatial, 1)},
                        {"ceil_mode", c.flag("ceil_mode", false)}});
  return {{like_input(c, y, input), input.dtype}};
}

Values avg_pool(Call& c, size_t spatial) {
  const TensorValue input = c.tensor(0);
  const Ints kernel = spread(c, "kernel_size", spatial, 1);
  const Ints stride = c.ints("stride").empty() ? kernel : spread(c, "stride", spatial, 1);
  const Val y = c.emit("avg_pool", {batched(c, c.val(input.value), spatial)},
                       {{"kernel", kernel},
                        {"strides", stride},
                        {"padding", spread(c, "padding", spatial, 0)},
                        {"ceil_mode", c.flag("ceil_mode", false)},
                        {"count_include_pad", c.flag("count_include_pad", true)},
                        {"divisor", c.integer("divisor_override", 0)}});
  return {{like_input(c, y, input), input.dtype}};
}

// Returns the mean of all pixels, or of windows of one size: where every output size divides the
// input's.
Val mean_of_windows(Call& c, Val x, const Ints& out) {
  Ints kernel, axes;
  for (size_t i = 0; i < out.size(); ++i) {
    axes.push_back(static_cast<int64_t>(i) + 2);
    kernel.push_back(x.type().shape[i + 2] / out[i]);
  }
  if (ir::element_count(Shape(out.begin(), out.end())) == 1) {
    return c.emit("mean", {x}, {{"axes", axes}, {"keepdims", true}});
  }
  return c.emit("avg_pool", {x},
                {{"kernel", kernel}, {"strides", kernel}, {"padding", Ints(out.size(), 0)}});
}

// Uses windows of one size where it can, else emits a mean per window.
Values adaptive_avg_pool(Call& c, size_t spatial) {
  const TensorValue input = c.tensor(0);
  Val x = batched(c, c.val(input.value), spatial);
  const Ints out = spread(c, "output_size", spatial, 1);
  bool divides = x.type().elements() > 0;
  for (size_t i = 0; i < spatial; ++i) divides &= out[i] > 0 && x.type().shape[i + 2] % out[i] == 0;
  if (divides) return {{like_input(c, mean_of_windows(c, x, out), input), input.dtype}};
  for (size_t i = 0; i < spatial; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t size = x.type().shape[axis];
    if (size == out[i]) continue;
    if (out[i] == 0) {
      x = c.slice(x, axis, 0, 0);
      continue;
    }
    std::vector<Value*> windows;
    for (int64_t o = 0; o < out[i]; ++o) {
      const int64_t start = o * size / out[i];
      const int64_t stop = ((o + 1) * size + out[i] - 1) / out[i];
      windows.push_back(c.emit("mean", {c.slice(x, axis, start, stop)},
                               {{"axes", Ints{axis}}, {"keepdims", true}}));
    }
    x = c.emit("concat", windows, {{"axis", axis}});
  }
  return {{like_input(c, x, input), input.dtype}};
}

}  // namespace

void add_conv_rules(Rules& r) {
  for (size_t spatial = 1; spatial <= 3; ++spatial) {
    const std::string rank = std::to_string(spatial) + "d";
    r.add("conv" + rank, conv(spatial));
    r.add("conv" + rank + ".padding", conv_with_padding_mode(spatial));
    r.add("conv_transpose" + rank, [spatial](Call& c) { return transposed(c, spatial); });
    r.add("max_pool" + rank, [spatial](Call& c) { return max_pool(c, spatial); });
    r.add("avg_pool" + rank, [spatial](Call& c) { return avg_pool(c, spatial); });
    r.add("adaptive_avg_pool" + rank, [spatial](Call& c) { return adaptive_avg_pool(c, spatial); });
  }
  r.add("convolution", convolution);
  r.add("_adaptive_avg_pool2d", [](Call& c) { return adaptive_avg_pool(c, 2); });
  r.add("_adaptive_avg_pool3d", [](Call& c) { return adaptive_avg_pool(c, 3); });
}

}  // namespace poptorch::frontend
