// aten rows of losses. Each ends in an `identity_loss`, by which the compiler finds the loss.
#include "frontends/torch/aten/kinds.hpp"
#include "frontends/torch/aten/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

constexpr const char* kReductions[] = {"none", "mean", "sum"};

std::string reduction(Call& c) {
  const int64_t code = c.integer("reduction", 1);
  if (code < 0 || code > 2) c.fail("unknown reduction.");
  return kReductions[code];
}

// Marks a loss; integer results are not losses, since they cannot be trained.
Val mark(Call& c, Val loss) {
  if (!ir::is_float(loss.type().dtype)) return loss;
  return c.emit("identity_loss", {loss}, {{"reduction", "none"}, {"of", c.name()}});
}

Val reduce_all(Call& c, Val x, const std::string& kind) {
  if (kind == "none") return x;
  Ints axes(x.type().rank());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  return axes.empty() ? x : c.emit(kind, {x}, {{"axes", axes}});
}

// Makes the row of an element-wise loss of (input, target), reduced.
template <typename Compose>
Rule elementwise_loss(Compose compose) {
  return [compose](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    const Val loss = compose(c, c.operand(0, dtype), c.operand(1, dtype));
    return {{mark(c, reduce_all(c, loss, reduction(c))), dtype}};
  };
}

// Returns `near` for distances below `bound`, else `far` (infinity too). `steep` is the slope at
// `bound`.
Val near_or_far(Call& c, Val x, Val y, Val near, Val far, double bound, double steep) {
  const auto number = [&](double value) { return c.scalar(x.type().dtype, value); };
  const Val apart = x - y;
  const Val is_near = c.emit("lt", {c.emit("abs", {apart}), number(bound)});
  const Val above = c.emit("maximum", {apart, number(-bound)});
  const Val slope = c.emit("minimum", {above, number(bound)}) * (steep / bound);
  return c.with_slopes(c.emit("select", {is_near, near, far}), {{x, slope}, {y, -slope}});
}

Val smooth_l1(Call& c, Val x, Val y) {
  const double beta = c.real("beta", 1.0);
  const Val distance = c.emit("abs", {x - y});
  if (beta == 0) return distance;
  const Val near = c.emit("square", {distance}) * (0.5 / beta);
  return near_or_far(c, x, y, near, distance - 0.5 * beta, beta, 1);
}

Val huber(Call& c, Val x, Val y) {
  const double delta = c.real("delta", 1.0);
  const Val distance = c.emit("abs", {x - y});
  const Val near = c.emit("square", {distance}) * 0.5;
  return near_or_far(c, x, y, near, (distance - 0.5 * delta) * delta, delta, delta);
}

Val optional_weight(Call& c, Val loss) {
  const TensorValue weight = c.tensor("weight");
  return weight ? loss * c.cast(weight.value, loss.type().dtype) : loss;
}

// Clamps the logarithms at -100, as torch does.
Val binary_cross_entropy(Call& c, Val x, Val y) {
  floats(c, c.tensor(1).dtype, "the target");
  const auto log = [&](Val v) {
    return c.emit("maximum", {c.emit("log", {v}), c.scalar(v.type().dtype, -100.0)});
  };
  return optional_weight(c, -(y * log(x) + (1.0 - y) * log(1.0 - x)));
}

Val binary_cross_entropy_with_logits(Call& c, Val x, Val y) {
  floats(c, c.tensor(1).dtype, "the target");
  const TensorValue positive = c.tensor("pos_weight");
  const Val soft = c.emit("softplus", {-x});
  if (!positive) return optional_weight(c, (1.0 - y) * x + soft);
  const Val weight = (c.cast(positive.value, x.type().dtype) - 1.0) * y + 1.0;
  return optional_weight(c, (1.0 - y) * x + weight * soft);
}

Val kl_divergence(Call& c, Val x, Val y) {
  if (c.flag("log_target", false)) return c.emit("exp", {y}) * (y - x);
  return xlogy(c, y, y) - y * x;
}

Val soft_margin(Call& c, Val x, Val y) { return c.emit("log1p", {c.emit("exp", {-(x * y)})}); }

// Holds the operands of a loss over classes, which lie on axis 1, or on axis 0 without a batch.
struct Classes {
  Val scores;
  Val target;
  bool batched;
};

Classes classes(Call& c, DType dtype) {
  Val scores = c.operand(0, dtype);
  Val target = whole_numbers(c, c.tensor(1), "classes");
  const bool batched = scores.type().rank() > 1;
  if (!batched) {
    scores = c.reshape(scores, {1, scores.type().shape[0]});
    target = c.reshape(target, {1});
  }
  return {scores, target, batched};
}

Value* class_weight(Call& c, DType dtype) {
  const TensorValue weight = c.tensor("weight");
  return weight ? c.cast(weight.value, dtype).value : nullptr;
}

Val unbatch(Call& c, Val loss, bool batched) {
  return batched || loss.type().rank() == 0 ? loss : c.reshape(loss, {});
}

Values nll_loss(Call& c) {
  const DType dtype = c.tensor(0).dtype;
  const Classes k = classes(c, dtype);
  const Val loss =
      c.emit("nll_loss", {k.scores, k.target, class_weight(c, dtype)},
             {{"reduction", reduction(c)}, {"ignore_index", c.integer("ignore_index", -100)}});
  return {{mark(c, unbatch(c, loss, k.batched)), dtype}};
}

// Computes cross entropy for targets that are probabilities of each class.
Values soft_cross_entropy(Call& c, DType dtype) {
  const Val scores = c.operand(0, dtype);
  const int64_t axis = scores.type().rank() > 1 ? 1 : 0;
  const int64_t count = scores.type().shape[axis];
  const double smoothing = c.real("label_smoothing", 0.0);
  Val target = c.operand(1, dtype);
  if (target.type().shape != scores.type().shape) {
    c.fail(
        support::str("a target of floats has the probability of each class, and so the shape of ",
                     "the input ", scores.type(), ", but got ", target.type(),
                     ". Pass classes as integers, with target.long(), or such probabilities."));
  }
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / static_cast<double>(count);
  Val terms = c.emit("log_softmax", {scores}, {{"axis", axis}}) * target;
  if (const TensorValue weight = c.tensor("weight")) {
    Shape shape(scores.type().rank(), 1);
    shape[axis] = count;
    terms = terms * c.reshape(c.cast(weight.value, dtype), shape);
  }
  const Val each = -c.emit("sum", {terms}, {{"axes", Ints{axis}}});
  return {{mark(c, reduce_all(c, each, reduction(c))), dtype}};
}

Values cross_entropy(Call& c) {
  const DType dtype = c.tensor(0).dtype;
  if (ir::is_float(c.tensor(1).dtype)) return soft_cross_entropy(c, dtype);
  const Classes k = classes(c, dtype);
  ir::Op* op =
      c.builder().emit("softmax_cross_entropy", {k.scores, k.target, class_weight(c, dtype)},
                       {{"reduction", reduction(c)},
                        {"ignore_index", c.integer("ignore_index", -100)},
                        {"label_smoothing", c.real("label_smoothing", 0.0)}});
  return {{mark(c, unbatch(c, c.val(op->result(0)), k.batched)), dtype}};
}

// Checks the reduction and leaves the computation to the generic op.
Values ctc_loss(Call& c) {
  if (reduction(c) == "none") {
    c.unsupported("CTCLoss with reduction=\"none\" is currently not supported. Use sum or mean.");
  }
  return {};
}

// Implements poptorch.identity_loss, with which the user marks a loss.
Values identity_loss(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{c.emit("identity_loss", {x.value}, {{"reduction", c.text("reduction")}}), x.dtype}};
}

// Returns max(x, 0), whose derivative at 0 is 1, like that of torch's clamp.
Val not_negative(Call& c, Val x) { return c.emit("clamp", {x}, {{"low", 0.0}}); }

DType float_type(Call& c, const std::vector<size_t>& arguments) {
  const DType dtype = c.result_type(arguments);
  return ir::is_float(dtype) ? dtype : c.default_float();
}

// These losses torch would decompose; rows compose them instead, so that the result is marked.
Values margin_ranking(Call& c) {
  const DType dtype = float_type(c, {0, 1, 2});
  const Val difference = c.operand(0, dtype) - c.operand(1, dtype);
  const Val loss = not_negative(c, c.real("margin", 0.0) - c.operand(2, dtype) * difference);
  return {{mark(c, reduce_all(c, loss, reduction(c))), dtype}};
}

Values hinge_embedding(Call& c) {
  const DType dtype = c.result_type({0, 1});
  const Val x = c.operand(0, dtype), y = c.operand(1, dtype), zero = c.scalar(dtype, 0);
  const Val apart = not_negative(c, c.real("margin", 1.0) - x);
  const Val first = c.emit("select", {c.emit("ne", {y, c.scalar(dtype, 1)}), apart, zero});
  const Val second = c.emit("select", {c.emit("ne", {y, c.scalar(dtype, -1)}), x, zero});
  return {{mark(c, reduce_all(c, first + second, reduction(c))), dtype}};
}

Values poisson_nll(Call& c) {
  const DType dtype = float_type(c, {0, 1});
  const Val x = c.operand(0, dtype), y = c.operand(1, dtype);
  Val loss =
      c.flag("log_input") ? c.emit("exp", {x}) - y * x : x - y * c.emit("log", {x + c.real("eps")});
  if (c.flag("full")) {
    const Val stirling = y * c.emit("log", {y}) - y + 0.5 * c.emit("log", {y * 6.283185307179586});
    const Val many = c.emit("gt", {y, c.scalar(dtype, 1)});
    loss = loss + c.emit("select", {many, stirling, c.scalar(dtype, 0)});
  }
  return {{mark(c, reduce_all(c, loss, reduction(c))), dtype}};
}

Val norm_along_last(Call& c, Val x, double epsilon) {
  const Ints last{x.type().rank() - 1};
  return c.emit("sum", {c.emit("square", {x})}, {{"axes", last}}) + epsilon;
}

Values cosine_embedding(Call& c) {
  constexpr double kEpsilon = 1e-12;  // torch's own
  const DType dtype = float_type(c, {0, 1});
  const Val a = c.operand(0, dtype), b = c.operand(1, dtype), y = c.operand(2, dtype);
  const Val dot = c.emit("sum", {a * b}, {{"axes", Ints{a.type().rank() - 1}}});
  const Val lengths = norm_along_last(c, a, kEpsilon) * norm_along_last(c, b, kEpsilon);
  const Val cosine = dot / c.emit("sqrt", {lengths});
  const Val zero = c.scalar(dtype, 0);
  const Val together =
      c.emit("select", {c.emit("eq", {y, c.scalar(dtype, 1)}), 1.0 - cosine, zero});
  const Val apart = not_negative(c, cosine - c.real("margin", 0.0));
  const Val far = c.emit("select", {c.emit("eq", {y, c.scalar(dtype, -1)}), apart, zero});
  return {{mark(c, reduce_all(c, together + far, reduction(c))), dtype}};
}

Val pairwise_distance(Call& c, Val a, Val b) {
  const double p = c.real("p", 2.0), epsilon = c.real("eps", 1e-6);
  const Val difference = (a - b) + epsilon;
  const Ints last{difference.type().rank() - 1};
  if (p == 2.0) {
    return c.emit("sqrt", {c.emit("sum", {c.emit("square", {difference})}, {{"axes", last}})});
  }
  const Val distance = c.emit("abs", {difference});
  if (p == 1.0) return c.emit("sum", {distance}, {{"axes", last}});
  const Val power = c.emit("pow", {distance, c.scalar(distance.type().dtype, p)});
  const Val total = c.emit("sum", {power}, {{"axes", last}});
  return c.emit("pow", {total, c.scalar(total.type().dtype, 1.0 / p)});
}

Values triplet_margin(Call& c) {
  const DType dtype = c.result_type({0, 1, 2});
  const Val anchor = c.operand(0, dtype), positive = c.operand(1, dtype);
  const Val negative = c.operand(2, dtype);
  const Val near = pairwise_distance(c, anchor, positive);
  Val far = pairwise_distance(c, anchor, negative);
  if (c.flag("swap", false)) {
    far = c.emit("minimum", {far, pairwise_distance(c, positive, negative)});
  }
  const Val loss = not_negative(c, (near - far) + c.real("margin", 1.0));
  return {{mark(c, reduce_all(c, loss, reduction(c))), dtype}};
}

}  // namespace

void add_loss_rules(Rules& r) {
  r.compose("mse_loss",
            elementwise_loss([](Call& c, Val x, Val y) { return c.emit("square", {x - y}); }));
  r.compose("l1_loss",
            elementwise_loss([](Call& c, Val x, Val y) { return c.emit("abs", {x - y}); }));
  r.compose("smooth_l1_loss", elementwise_loss(smooth_l1));
  r.compose("huber_loss", elementwise_loss(huber));
  r.compose("binary_cross_entropy", elementwise_loss(binary_cross_entropy));
  r.compose("binary_cross_entropy_with_logits", elementwise_loss(binary_cross_entropy_with_logits));
  r.compose("kl_div", elementwise_loss(kl_divergence));
  r.compose("soft_margin_loss", elementwise_loss(soft_margin));
  r.add("cross_entropy_loss", cross_entropy);
  r.add("nll_loss_nd", nll_loss);
  r.add("nll_loss", nll_loss);
  r.add("nll_loss2d", nll_loss);
  r.compose("margin_ranking_loss", margin_ranking);
  r.compose("hinge_embedding_loss", hinge_embedding);
  r.compose("poisson_nll_loss", poisson_nll);
  r.compose("cosine_embedding_loss", cosine_embedding);
  r.compose("triplet_margin_loss", triplet_margin);
  r.add("ctc_loss", ctc_loss);
  r.add("poptorch::identity_loss", identity_loss);
}

}  // namespace poptorch::frontend
