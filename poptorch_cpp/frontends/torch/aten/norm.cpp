// aten rows of normalisations. The rows of batch norm also write the running statistics, which
// torch's schema does not declare.
#include <algorithm>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

Value* optional(Call& c, size_t argument) {
  return c.given(argument) ? c.tensor(argument).value : nullptr;
}

Value* optional(Call& c, std::string_view argument, DType dtype) {
  const TensorValue x = c.tensor(argument);
  return x ? c.cast(x.value, dtype).value : nullptr;
}

// Returns the dtype of the statistics that torch returns beside the result: the weight's, else the
// input's.
DType statistics_type(Call& c, const TensorValue& x) {
  const TensorValue weight = c.tensor("weight");
  return weight ? weight.dtype : x.dtype;
}

TensorValue empty_vector(Call& c, DType dtype) {
  return {c.builder().constant(ir::Literal({narrow(dtype), {0}}, {})), dtype};
}

// Implements (input, weight, bias, running_mean, running_var, training, momentum, eps) → output,
// mean, inv_std.
Values native_batch_norm(Call& c, bool training) {
  const TensorValue x = c.tensor(0);
  const size_t mean = c.index_of("running_mean"), var = c.index_of("running_var");
  const double eps = c.real("eps");
  Value *weight = optional(c, 1), *bias = optional(c, 2);
  if (!training) {
    if (!c.given(mean)) c.fail("evaluation needs running statistics.");
    const Val y =
        c.emit("batch_norm_inference", {x.value, weight, bias, optional(c, mean), optional(c, var)},
               {{"eps", eps}});
    const TensorValue none = empty_vector(c, statistics_type(c, x));
    return {{y, x.dtype}, none, none};
  }
  const bool tracks = c.given(mean);
  ir::Op* op =
      c.builder().emit("batch_norm", {x.value, weight, bias, optional(c, mean), optional(c, var)},
                       {{"momentum", c.real("momentum", 0.1)}, {"eps", eps}});
  if (tracks) {
    c.write(mean, op->result(3));
    c.write(var, op->result(4));
  }
  const DType kept = statistics_type(c, x);
  return {{op->result(0), x.dtype},
          {c.cast(op->result(1), kept), kept},
          {c.cast(op->result(2), kept), kept}};
}

// Makes the rows of two further batch norm operators, whose names say whether they train.
Rule with_reserve(bool training) {
  return [training](Call& c) {
    Values results = native_batch_norm(c, training);
    results.push_back(empty_vector(c, DType::kU8));
    return results;
  };
}

Values batch_norm(Call& c) {
  if (c.tensor(0).rank() < 2) c.fail("needs a batch and a channel dimension.");
  return {native_batch_norm(c, c.flag("training")).at(0)};
}

// Returns how many dimensions a norm takes together, which `normalized_shape` gives: the last ones.
int64_t normalized_count(Call& c, const TensorValue& x) {
  const Ints sizes = c.ints("normalized_shape");
  const auto count = static_cast<int64_t>(sizes.size());
  const Shape shape = x.shape();
  if (count == 0 || count > x.rank() ||
      !std::equal(sizes.begin(), sizes.end(), shape.end() - count)) {
    c.fail(support::str("normalises dimensions of ", ir::shape_text(sizes),
                        ", which must be the last ones of its input, but that has ",
                        ir::shape_text(shape), "."));
  }
  return count;
}

ir::Op* layer_norm_op(Call& c, const TensorValue& x, int64_t axes_count) {
  return c.builder().emit("layer_norm",
                          {x.value, optional(c, "weight", x.dtype), optional(c, "bias", x.dtype)},
                          {{"axes_count", axes_count}, {"eps", c.real("eps", 1e-5)}});
}

Values native_layer_norm(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t count = normalized_count(c, x);
  ir::Op* op = layer_norm_op(c, x, count);
  const DType kept = statistics_type(c, x);
  Shape shape = x.shape();
  std::fill(shape.end() - count, shape.end(), 1);
  return {{op->result(0), x.dtype},
          {c.cast(c.reshape(op->result(1), shape), kept), kept},
          {c.cast(c.reshape(op->result(2), shape), kept), kept}};
}

Values layer_norm(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t count = normalized_count(c, x);
  return {{layer_norm_op(c, x, count)->result(0), x.dtype}};
}

Values group_norm(Call& c) {
  const TensorValue x = c.tensor(0);
  ir::Op* op = c.builder().emit(
      "group_norm", {x.value, optional(c, "weight", x.dtype), optional(c, "bias", x.dtype)},
      {{"groups", c.integer("num_groups")}, {"eps", c.real("eps", 1e-5)}});
  return {{op->result(0), x.dtype}};
}

Values rms_norm(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val value = c.val(x.value);
  const int64_t count = normalized_count(c, x);
  Ints axes;
  for (int64_t i = x.rank() - count; i < x.rank(); ++i) axes.push_back(i);
  const double epsilon = c.real("eps", 1.1920929e-7);  // of f32, in which halves are computed too
  const Val square =
      c.emit("mean", {c.emit("square", {value})}, {{"axes", axes}, {"keepdims", true}});
  const Val y = value * c.emit("rsqrt", {square + epsilon});
  Value* weight = optional(c, "weight", x.dtype);
  return {{weight ? y * c.val(weight) : y, x.dtype}};
}

// Returns v scaled to the norms g over all axes but `dim`, and the previous norms of v.
Values weight_norm(Call& c) {
  const TensorValue v = c.tensor(0), g = c.tensor(1);
  const int64_t kept = c.axis(c.integer("dim", 0), v.rank());
  Ints axes;
  for (int64_t i = 0; i < v.rank(); ++i) {
    if (i != kept) axes.push_back(i);
  }
  const Val value = c.val(v.value), square = c.emit("square", {value});
  const Val norm = c.emit("sqrt", {c.emit("sum", {square}, {{"axes", axes}, {"keepdims", true}})});
  return {{value * (c.val(g.value) / norm), v.dtype}, {norm, g.dtype}};
}

}  // namespace

void add_norm_rules(Rules& r) {
  r.add("batch_norm", batch_norm);
  for (const char* op : {"native_batch_norm", "_native_batch_norm_legit"}) {
    r.add(op, [](Call& c) { return native_batch_norm(c, c.flag("training")); });
  }
  r.add("_batch_norm_with_update", with_reserve(true));
  r.add("_batch_norm_no_update", with_reserve(false));
  r.add("layer_norm", layer_norm);
  r.add("native_layer_norm", native_layer_norm);
  r.add("group_norm", group_norm);
  r.compose("rms_norm", rms_norm);
  r.compose("_weight_norm_interface", weight_norm);
}

}  // namespace poptorch::frontend
