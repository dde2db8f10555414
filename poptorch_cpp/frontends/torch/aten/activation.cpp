// aten rows of activation functions.
#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Makes a row that composes ops of the operand, a Val, with the same dtype.
template <typename Compose>
Rule of_x(Compose compose) {
  return [compose](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    return {{compose(c, c.val(x.value)), x.dtype}};
  };
}

Val clamp(Call& c, Val x, double low, double high) {
  return c.emit("clamp", {x}, {{"low", low}, {"high", high}});
}

Val number(Call& c, Val like, double value) { return c.scalar(like.type().dtype, value); }

Val gelu(Call& c, Val x) { return c.emit("gelu", {x}, {{"approximate", c.text("approximate")}}); }

Val elu(Call& c, Val x) {
  return c.emit("elu", {x},
                {{"alpha", c.real("alpha", 1.0)},
                 {"scale", c.real("scale", 1.0)},
                 {"input_scale", c.real("input_scale", 1.0)}});
}

Val selu(Call& c, Val x) {
  return c.emit("elu", {x},
                {{"alpha", 1.6732632423543772848170429916717},
                 {"scale", 1.0507009873554804934193349852946},
                 {"input_scale", 1.0}});
}

Val celu(Call& c, Val x) {
  const double alpha = c.real("alpha", 1.0);
  return c.emit("elu", {x}, {{"alpha", alpha}, {"scale", 1.0}, {"input_scale", 1.0 / alpha}});
}

Val softplus(Call& c, Val x) {
  const double beta = c.real("beta", 1.0), threshold = c.real("threshold", 20.0);
  const Val scaled = beta == 1.0 ? x : x * beta;
  const Val soft = c.emit("softplus", {scaled});
  const Val linear = c.emit("gt", {scaled, number(c, x, threshold)});
  return c.emit("select", {linear, x, beta == 1.0 ? soft : soft / beta});
}

// Treats NaN as above every threshold.
Val threshold(Call& c, Val x) {
  const Val below = c.emit("le", {x, number(c, x, c.real("threshold"))});
  return c.emit("select", {below, number(c, x, c.real("value")), x});
}

Val hardshrink(Call& c, Val x) {
  const double lambda = c.real("lambd", 0.5);
  const Val small = c.emit("le", {c.emit("abs", {x}), number(c, x, lambda)});
  return c.emit("select", {small, number(c, x, 0), x});
}

Val softshrink(Call& c, Val x) {
  const double lambda = c.real("lambd", 0.5);
  return x - clamp(c, x, -lambda, lambda);
}

Val log_sigmoid(Call& c, Val x) { return -c.emit("softplus", {-x}); }

// Returns a mask that is true where low < x < high.
Val between(Call& c, Val x, double low, double high) {
  return c.emit("logical_and",
                {c.emit("gt", {x, number(c, x, low)}), c.emit("lt", {x, number(c, x, high)})});
}

// Clamps x; unlike clamp's, the derivative is zero on the bounds themselves, as in torch.
Val hard_limits(Call& c, Val x, double low, double high) {
  const Val inside = between(c, x, low, high);
  return c.with_gradient(clamp(c, x, low, high), c.only_where(inside, x));
}

Val hard_sigmoid(Call& c, Val x) {
  const Val y = clamp(c, x + 3.0, 0.0, 6.0) / 6.0;
  return c.with_gradient(y, c.only_where(between(c, x, -3.0, 3.0), x / 6.0));
}

Val hard_swish(Call& c, Val x) {
  const Val y = x * (clamp(c, x + 3.0, 0.0, 6.0) / 6.0);
  const Val line =
      c.emit("select", {c.emit("ge", {x, number(c, x, 3.0)}), number(c, x, 1.0), x / 3.0 + 0.5});
  const Val flat = c.emit("le", {x, number(c, x, -3.0)});
  const Val slope = c.emit("select", {flat, number(c, x, 0.0), line});
  return c.with_slopes(y, {{x, slope}});
}

Values hardtanh(Call& c) {
  const TensorValue x = c.tensor(0);
  const double low = c.real("min_val", -1.0), high = c.real("max_val", 1.0);
  if (ir::is_float(x.dtype)) return {{hard_limits(c, c.val(x.value), low, high), x.dtype}};
  const Val above = c.emit("maximum", {x.value, c.scalar(x.dtype, low)});
  return {{c.emit("minimum", {above, c.scalar(x.dtype, high)}), x.dtype}};
}

Values relu6(Call& c) {
  const TensorValue x = c.tensor(0);
  if (ir::is_float(x.dtype)) return {{hard_limits(c, c.val(x.value), 0.0, 6.0), x.dtype}};
  const Val above = c.emit("maximum", {x.value, c.scalar(x.dtype, 0)});
  return {{c.emit("minimum", {above, c.scalar(x.dtype, 6)}), x.dtype}};
}

// The weight lies along axis 1 of x.
Values prelu(Call& c) {
  const TensorValue x = c.tensor(0), weight = c.tensor(1);
  Val slope = c.val(weight.value);
  if (x.rank() > 2 && weight.value->type().elements() > 1) {
    Shape shape(x.rank(), 1);
    shape[1] = weight.shape()[0];
    slope = c.reshape(slope, shape);
  }
  const Val value = c.val(x.value);
  const Val positive = c.emit("gt", {value, number(c, value, 0)});
  const Val y = c.emit("select", {positive, value, slope * value});
  const Val of_value = c.emit("select", {positive, number(c, value, 1), slope});
  const Val of_slope = c.emit("select", {positive, number(c, value, 0), value});
  return {
      {c.reshape(c.with_slopes(y, {{value, of_value}, {slope, of_slope}}), x.shape()), x.dtype}};
}

Values glu(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t axis = c.axis(c.integer("dim", -1), x.rank());
  const int64_t half = x.shape()[axis] / 2;
  if (half * 2 != x.shape()[axis]) c.fail("needs an even number of elements in the dimension.");
  const Val gate = c.emit("sigmoid", {c.slice(x.value, axis, half, 2 * half)});
  return {{c.slice(x.value, axis, 0, half) * gate, x.dtype}};
}

// Draws the slopes at random in training.
Values rrelu(Call& c) {
  const TensorValue x = c.tensor(0);
  const double low = c.real("lower", 0.125), high = c.real("upper", 1.0 / 3.0);
  const Val value = c.val(x.value);
  Val slope = number(c, value, (low + high) / 2);
  if (c.flag("training", false)) {
    slope = c.emit(
        "random_uniform", {},
        {{"shape", Ints(x.shape())}, {"low", low}, {"high", high}, {"dtype", value.type().dtype}});
  }
  const Val scaled = c.emit("le", {value, number(c, value, 0)});
  return {{c.emit("select", {scaled, slope * value, value}), x.dtype}};
}

}  // namespace

void add_activation_rules(Rules& r) {
  r.add("relu", direct("relu"));
  r.add("silu", direct_float("silu"));
  r.add("gelu", of_x(gelu));
  r.add("elu", of_x(elu));
  r.add("selu", of_x(selu));
  r.add("celu", of_x(celu));
  r.compose("softplus", of_x(softplus));
  r.add("threshold", of_x(threshold));
  r.add("hardshrink", of_x(hardshrink));
  r.compose("softshrink", of_x(softshrink));
  r.compose("log_sigmoid", of_x(log_sigmoid));
  r.add("relu6", relu6);
  r.add("hardtanh", hardtanh);
  r.add("leaky_relu", of_x([](Call& c, Val x) {
          return c.emit("leaky_relu", {x}, {{"slope", c.real("negative_slope", 0.01)}});
        }));
  r.compose("hardsigmoid", of_x(hard_sigmoid));
  r.compose("hardswish", of_x(hard_swish));
  r.compose("mish",
            of_x([](Call& c, Val x) { return x * c.emit("tanh", {c.emit("softplus", {x})}); }));
  r.compose("prelu", prelu);
  r.compose("_prelu_kernel", prelu);
  r.compose("glu", glu);
  r.compose("rrelu", rrelu);
}

}  // namespace poptorch::frontend
