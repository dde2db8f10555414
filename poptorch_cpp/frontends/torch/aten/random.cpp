// aten rows that draw random numbers, always from the core's generator (Philox by seed, op and
// micro-batch) and never from torch's.
#include <cmath>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

Val uniform(Call& c, const Shape& shape, double low, double high, DType dtype) {
  return c.emit("random_uniform", {},
                {{"shape", Ints(shape)}, {"low", low}, {"high", high}, {"dtype", narrow(dtype)}});
}

Val normal(Call& c, const Shape& shape, double mean, double deviation, DType dtype) {
  return c.emit(
      "random_normal", {},
      {{"shape", Ints(shape)}, {"mean", mean}, {"std", deviation}, {"dtype", narrow(dtype)}});
}

// Draws integers in [low, high).
Val integers(Call& c, const Shape& shape, double low, double high, DType dtype) {
  const Val drawn = c.emit("floor", {uniform(c, shape, low, high, DType::kF32)});
  return c.cast(c.emit("minimum", {drawn, c.scalar(DType::kF32, high - 1)}), dtype);
}

Values dropout(Call& c) {
  const TensorValue x = c.tensor(0);
  const double p = c.real("p");
  if (p < 0 || p > 1) c.fail("the probability must be between 0 and 1.");
  if (!c.flag("train", true) || p == 0) return {};  // torch returns its argument
  if (p == 1) return {{c.val(x.value) * 0.0, x.dtype}};
  return {{c.builder().emit("dropout", {x.value}, {{"p", p}})->result(0), x.dtype}};
}

Values native_dropout(Call& c) {
  const TensorValue x = c.tensor(0);
  if (!c.flag("train", true)) {
    return {{c.emit("identity", {x.value}), x.dtype},
            {c.full(x.shape(), DType::kBool, 1), DType::kBool}};
  }
  ir::Op* op = c.builder().emit("dropout", {x.value}, {{"p", c.real("p")}});
  return {{op->result(0), x.dtype}, {c.cast(op->result(1), DType::kBool), DType::kBool}};
}

Shape shape_argument(Call& c) {
  return c.index_of("size") == Call::kNone ? c.tensor(0).shape() : c.ints("size");
}

DType dtype_argument(Call& c) {
  if (const auto given = c.dtype("dtype")) return *given;
  return c.index_of("self") == Call::kNone ? c.default_float() : c.tensor(0).dtype;
}

Values rand(Call& c) {
  const DType dtype = dtype_argument(c);
  return {{uniform(c, shape_argument(c), 0, 1, dtype), dtype}};
}

Values randn(Call& c) {
  const DType dtype = dtype_argument(c);
  return {{normal(c, shape_argument(c), 0, 1, dtype), dtype}};
}

Values randint(Call& c) {
  const bool like = c.index_of("self") != Call::kNone;
  const DType dtype = c.dtype("dtype").value_or(like ? c.tensor(0).dtype : DType::kI64);
  const auto low = static_cast<double>(c.integer("low", 0));
  const auto high = static_cast<double>(c.integer("high"));
  return {{integers(c, shape_argument(c), low, high, dtype), dtype}};
}

Values randperm(Call& c) {
  const Shape shape{c.integer("n")};
  ir::Op* sorted =
      c.builder().emit("sort", {uniform(c, shape, 0, 1, DType::kF32)},
                       {{"axis", int64_t{0}}, {"descending", false}, {"stable", true}});
  const DType dtype = c.dtype("dtype").value_or(DType::kI64);
  return {{c.cast(sorted->result(1), dtype), dtype}};
}

// Draws from [0, 1) in f32, in which callers compute whatever the result's type is.
Val even(Call& c, const Shape& shape) { return uniform(c, shape, 0, 1, DType::kF32); }

// The following rows fill in place: uniform_, normal_, exponential_, random_.
Values uniform_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{uniform(c, x.shape(), c.real("from", 0), c.real("to", 1), x.dtype), x.dtype}};
}

Values normal_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{normal(c, x.shape(), c.real("mean", 0), c.real("std", 1), x.dtype), x.dtype}};
}

Values exponential_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  // 1 - u is never zero.
  const Val y = -c.emit("log", {1.0 - even(c, x.shape())}) / c.real("lambd", 1.0);
  return {{c.cast(y, x.dtype), x.dtype}};
}

Values cauchy_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val turned = c.emit("tan", {(even(c, x.shape()) - 0.5) * 3.14159265358979323846});
  return {{c.cast(turned * c.real("sigma", 1) + c.real("median", 0), x.dtype), x.dtype}};
}

Values log_normal_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val drawn = normal(c, x.shape(), c.real("mean", 1), c.real("std", 2), DType::kF32);
  return {{c.cast(c.emit("exp", {drawn}), x.dtype), x.dtype}};
}

// Draws the number of the first trial that succeeds.
Values geometric_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  const double p = c.real("p");
  if (p <= 0 || p > 1) c.fail("the probability must be above 0 and at most 1.");
  if (p == 1) return {{c.full(x.shape(), x.dtype, 1), x.dtype}};
  const Val trials = c.emit("log", {1.0 - even(c, x.shape())}) / std::log1p(-p);
  const Val y = c.emit("maximum", {c.emit("ceil", {trials}), c.scalar(DType::kF32, 1)});
  return {{c.cast(y, x.dtype), x.dtype}};
}

Values random_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  double high = 16777216;  // 2^24: the whole numbers that a float holds
  if (x.dtype == DType::kBool) high = 2;
  if (ir::size_of(x.dtype) == 1 && x.dtype != DType::kBool) high = 128;
  if (x.dtype == DType::kF16) high = 2049;
  if (c.given("to")) high = static_cast<double>(c.integer("to"));
  return {
      {integers(c, x.shape(), static_cast<double>(c.integer("from", 0)), high, x.dtype), x.dtype}};
}

// Implements normal(mean, std) where at least one of them is a tensor.
Values normal_of_tensors(Call& c) {
  const bool mean_varies = c.is_tensor(0), deviation_varies = c.is_tensor(1);
  const TensorValue any = c.tensor(mean_varies ? size_t{0} : size_t{1});
  Shape shape = any.shape();
  if (mean_varies && deviation_varies) {
    const auto both = ir::broadcast(shape, c.tensor(1).shape());
    if (!both) c.fail("mean and std do not broadcast.");
    shape = *both;
  }
  const Val drawn = normal(c, shape, 0, 1, any.dtype);
  const Val deviation = c.given(1) ? c.operand(1, any.dtype) : c.scalar(any.dtype, 1);
  return {{c.operand(0, any.dtype) + drawn * deviation, any.dtype}};
}

// Draws 1 with probability p (a tensor or number), with the shape and type of `like`.
Val bernoulli_of(Call& c, const TensorValue& like, Val p) {
  const Val u = uniform(c, like.shape(), 0, 1, DType::kF32);
  return c.cast(c.emit("lt", {u, c.cast(p, DType::kF32)}), like.dtype);
}

Values bernoulli(Call& c) {
  const TensorValue x = c.tensor(0);
  const size_t p = c.index_of("p");
  const Val probability =
      p == Call::kNone || !c.given(p) ? c.val(x.value) : c.operand(p, DType::kF32);
  return {{bernoulli_of(c, x, probability), x.dtype}};
}

// Counts the running sums of the probabilities at or below a random number. A category with
// probability 0 is never drawn.
Values multinomial_with_replacement(Call& c, const TensorValue& p, int64_t samples) {
  const int64_t axis = p.rank() - 1, categories = p.shape().back();
  const Val sums = c.emit("cumsum", {c.cast(p.value, DType::kF32)}, {{"axis", axis}});
  const Val total = c.slice(sums, axis, categories - 1, categories);
  Shape drawn = p.shape();
  drawn.back() = samples;
  const Val numbers = even(c, drawn) * total;
  Shape across = p.shape(), down = drawn;
  across.insert(across.end() - 1, 1);
  down.push_back(1);
  const Val below = c.emit("le", {c.reshape(sums, across), c.reshape(numbers, down)});
  const Val index =
      c.emit("sum", {c.cast(below, DType::kI32)}, {{"axes", Ints{axis + 1}}, {"keepdims", false}});
  return {{index, DType::kI64}};
}

// Draws without replacement: the largest of log p plus Gumbel noise. The first draw is exact.
Values multinomial(Call& c) {
  const TensorValue p = c.tensor(0);
  const int64_t samples = c.integer("num_samples");
  if (c.flag("replacement", false) && samples > 1) {
    return multinomial_with_replacement(c, p, samples);
  }
  const Val u = uniform(c, p.shape(), 1e-12, 1, DType::kF32);
  const Val gumbel = -c.emit("log", {-c.emit("log", {u})});
  const Val keys = c.emit("log", {c.cast(p.value, DType::kF32)}) + gumbel;
  ir::Op* top = c.builder().emit(
      "topk", {keys},
      {{"k", samples}, {"axis", p.rank() - 1}, {"largest", true}, {"sorted", true}});
  return {{top->result(1), DType::kI64}};
}

// Draws gamma numbers, at least the smallest normal f32 so that they do not become 0, as in torch.
Val gamma_numbers(Call& c, Val alpha) {
  const Val drawn = c.emit("random_gamma", {c.emit("detach", {alpha})});
  return c.emit("maximum", {drawn, c.scalar(DType::kF32, 1.17549435e-38)});
}

// Draws gamma numbers with torch's implicit derivative by alpha.
Values standard_gamma(Call& c) {
  const TensorValue alpha = c.tensor(0);
  const Val shape = c.cast(alpha.value, DType::kF32), y = gamma_numbers(c, shape);
  const char* operands = R"([{"operand": 0, "dtype": "f32"}, {"operand": 1, "dtype": "f32"}])";
  if (!c.differentiates()) return {{c.cast(y, alpha.dtype), alpha.dtype}};
  const Val slope = c.emit(
      "aten", {c.emit("detach", {shape}), y},
      {{"schema", "aten::_standard_gamma_grad.default"}, {"arguments", operands}}, {y.type()});
  return {{c.cast(c.with_slopes(y, {{shape, slope}}), alpha.dtype), alpha.dtype}};
}

Values dirichlet(Call& c) {
  const TensorValue alpha = c.tensor(0);
  const Val parts = gamma_numbers(c, c.cast(alpha.value, DType::kF32));
  const Val whole = c.emit("sum", {parts}, {{"axes", Ints{alpha.rank() - 1}}, {"keepdims", true}});
  return {{c.cast(parts / whole, alpha.dtype), alpha.dtype}};
}

Values poisson(Call& c) {
  const TensorValue rate = c.tensor(0);
  const Val drawn = c.emit("random_poisson", {c.cast(rate.value, DType::kF32)});
  return {{c.cast(drawn, rate.dtype), rate.dtype}};
}

Values binomial(Call& c) {
  const TensorValue count = c.tensor(0), p = c.tensor(1);
  const auto shape = ir::broadcast(count.shape(), p.shape());
  if (!shape) c.fail("count and prob do not broadcast.");
  const Val drawn =
      c.emit("random_binomial", {c.broadcast(c.cast(count.value, DType::kF32), *shape),
                                 c.broadcast(c.cast(p.value, DType::kF32), *shape)});
  return {{c.cast(drawn, count.dtype), count.dtype}};
}

}  // namespace

void add_random_rules(Rules& r) {
  r.add("dropout", dropout);
  r.add("native_dropout", native_dropout);
  r.add("rand", rand);
  r.add("rand_like", rand);
  r.add("randn", randn);
  r.add("randn_like", randn);
  r.add("randint", randint);
  r.add("randint_like", randint);
  r.add("randperm", randperm);
  r.add("uniform", uniform_fill);
  r.add("normal", normal_fill);
  r.add("normal.Tensor_float", normal_of_tensors);
  r.add("normal.float_Tensor", normal_of_tensors);
  r.add("normal.Tensor_Tensor", normal_of_tensors);
  r.add("normal.float_float", [](Call& c) -> Values {
    const DType dtype = c.dtype("dtype").value_or(c.default_float());
    return {{normal(c, c.ints("size"), c.real("mean"), c.real("std"), dtype), dtype}};
  });
  r.add("exponential", exponential_fill);
  r.add("cauchy", cauchy_fill);
  r.add("log_normal", log_normal_fill);
  r.add("geometric", geometric_fill);
  r.add("_standard_gamma", standard_gamma);
  r.add("_sample_dirichlet", dirichlet);
  r.add("poisson", poisson);
  r.add("binomial", binomial);
  r.add("random", random_fill);
  r.add("bernoulli", bernoulli);
  r.add("multinomial", multinomial);
}

}  // namespace poptorch::frontend
