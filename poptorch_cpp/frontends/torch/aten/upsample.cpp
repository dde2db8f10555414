// aten rows that resize images by the nearest element, or by weighted means of neighbours.
#include <algorithm>
#include <cmath>
#include <optional>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

template <typename T>
Val constant(Call& c, DType dtype, const Shape& shape, const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  std::vector<std::byte> bytes(first, first + values.size() * sizeof(T));
  return c.val(c.builder().constant(ir::Literal({dtype, shape}, std::move(bytes))));
}

// Returns the distance in the input between neighbours of the output.
float step_of(int64_t size, int64_t out, std::optional<double> scale) {
  if (scale && *scale > 0) return static_cast<float>(1.0 / *scale);
  return static_cast<float>(size) / static_cast<float>(out);
}

// An axis of which each element is repeated, or whose nearest elements are looked up.
struct NearestAxis {
  int64_t axis, size, out;
  float step;
  bool repeats;
};

Val looked_up(Call& c, Val x, const NearestAxis& a) {
  std::vector<int32_t> places;
  for (int64_t i = 0; i < a.out; ++i) {
    const auto at = static_cast<int64_t>(std::floor(static_cast<float>(i) * a.step));
    places.push_back(static_cast<int32_t>(std::min(at, a.size - 1)));
  }
  const Val indices = constant(c, DType::kI32, {a.out}, places);
  return c.emit("index_select", {x, indices}, {{"axis", a.axis}});
}

// Repeats the elements of all such axes at once, so that the gradient is one sum.
Val repeated(Call& c, Val x, const std::vector<NearestAxis>& axes) {
  const Shape& shape = x.type().shape;
  Shape split(shape.begin(), shape.begin() + 2), spread = split, joined = split;
  for (const NearestAxis& a : axes) {
    const int64_t times = a.repeats ? a.out / a.size : 1;
    split.insert(split.end(), {a.size, 1});
    spread.insert(spread.end(), {a.size, times});
    joined.push_back(a.size * times);
  }
  if (joined == shape) return x;
  return c.reshape(c.broadcast(c.reshape(x, split), spread), joined);
}

// Returns the sizes of the result along all dimensions but the first two.
Ints output_sizes(Call& c, const TensorValue& x) {
  const Ints out = c.ints("output_size");
  const Shape shape = x.shape();
  const auto is_positive = [](int64_t size) { return size > 0; };
  if (!std::all_of(out.begin(), out.end(), is_positive) ||
      !std::all_of(shape.begin() + 2, shape.end(), is_positive)) {
    c.fail(support::str("needs sizes greater than 0, but resizes ", ir::shape_text(shape), " to ",
                        ir::shape_text(out), "."));
  }
  return out;
}

// Implements upsample_nearest{1,2,3}d(self, output_size, scales...).
Values upsample_nearest(Call& c) {
  const TensorValue x = c.tensor(0);
  const Ints out = output_sizes(c, x);
  std::vector<NearestAxis> axes;
  for (size_t i = 0; i < out.size(); ++i) {
    std::optional<double> scale;
    if (c.given(2 + i)) scale = c.number(2 + i).real;
    const int64_t axis = static_cast<int64_t>(i) + 2, size = x.value->type().shape[axis];
    const bool whole =
        out[i] % size == 0 && (!scale || *scale == static_cast<double>(out[i] / size));
    axes.push_back({axis, size, out[i], step_of(size, out[i], scale), whole});
  }
  Val result = repeated(c, c.val(x.value), axes);
  for (const NearestAxis& a : axes) {
    if (!a.repeats) result = looked_up(c, result, a);
  }
  return {{result, x.dtype}};
}

// Holds one input of each output element: its place, and its weight.
struct Tap {
  std::vector<int32_t> places;
  std::vector<float> weights;

  void add(int64_t place, int64_t size, float weight) {
    places.push_back(static_cast<int32_t>(std::clamp<int64_t>(place, 0, size - 1)));
    weights.push_back(weight);
  }
};

// Returns the weights of the inputs before and after a place, `at` of the way between both.
std::vector<float> linear_weights(float at) { return {1 - at, at}; }

// Returns the weights of the two inputs before and the two after the place, by torch's spline.
std::vector<float> cubic_weights(float at) {
  constexpr float kSlope = -0.75F;
  const auto near = [](float x) { return ((kSlope + 2) * x - (kSlope + 3)) * x * x + 1; };
  const auto far = [](float x) {
    return ((kSlope * x - 5 * kSlope) * x + 8 * kSlope) * x - 4 * kSlope;
  };
  return {far(at + 1), near(at), near(1 - at), far(2 - at)};
}

Val smooth_axis(Call& c, Val x, int64_t axis, int64_t out, std::optional<double> scale,
                bool cubic) {
  const auto place = static_cast<size_t>(axis);
  const int64_t size = x.type().shape[place];
  const bool to_corners = c.flag("align_corners");
  float step = step_of(size, out, scale);
  if (to_corners) {
    step = out > 1 ? static_cast<float>(size - 1) / static_cast<float>(out - 1) : 0.0F;
  }
  if (out == size && step == 1) return x;
  std::vector<Tap> taps(cubic ? 4 : 2);
  for (int64_t i = 0; i < out; ++i) {
    const auto number = static_cast<float>(i);
    float from = to_corners ? step * number : step * (number + 0.5F) - 0.5F;
    if (!cubic) from = std::clamp(from, 0.0F, static_cast<float>(size - 1));
    const float before = std::floor(from);
    const auto weights = cubic ? cubic_weights(from - before) : linear_weights(from - before);
    for (size_t tap = 0; tap < taps.size(); ++tap) {
      const auto shift = static_cast<int64_t>(tap) - (cubic ? 1 : 0);
      taps[tap].add(static_cast<int64_t>(before) + shift, size, weights[tap]);
    }
  }
  Shape column(x.type().shape.size(), 1);
  column[place] = out;
  Val sum;
  for (const Tap& tap : taps) {
    const Val indices = constant(c, DType::kI32, {out}, tap.places);
    const Val taken = c.emit("index_select", {x, indices}, {{"axis", axis}});
    const Val part = taken * c.cast(constant(c, DType::kF32, column, tap.weights), x.type().dtype);
    sum = sum.value ? sum + part : part;
  }
  return sum;
}

// Makes the row of upsample_linear1d and similar: (self, output_size, align_corners, scales...).
Rule smooth(bool cubic) {
  return [cubic](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    if (!ir::is_float(x.dtype)) return {};  // torch rounds integers differently
    const Ints out = output_sizes(c, x);
    Val result = c.val(x.value);
    for (size_t i = out.size(); i-- > 0;) {
      std::optional<double> scale;
      if (c.given(3 + i)) scale = c.number(3 + i).real;
      result = smooth_axis(c, result, static_cast<int64_t>(i) + 2, out[i], scale, cubic);
    }
    return {{result, x.dtype}};
  };
}

}  // namespace

void add_upsample_rules(Rules& r) {
  for (const char* rank : {"1d", "2d", "3d"}) {
    r.add(std::string("upsample_nearest") + rank, upsample_nearest);
  }
  for (const char* op : {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"}) {
    r.compose(op, smooth(false));
  }
  r.compose("upsample_bicubic2d", smooth(true));
}

}  // namespace poptorch::frontend
