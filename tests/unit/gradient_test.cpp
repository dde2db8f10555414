// Checks every gradient rule against central differences in double, computed by the reference
// kernels: one row per case. The loss is the sum of the results' elements, each times a fixed
// number.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "gradient_case.hpp"
#include "ir/builder.hpp"
#include "ir/op_def.hpp"
#include "ir/verify.hpp"
#include "ops/all_ops.hpp"
#include "reference/interpreter.hpp"

namespace poptorch::ops {
namespace {

using ir::GradBuilder;
using ir::Ints;
using ir::NoGradient;
using ir::Value;

// A graph of the op, which returns its results and then the gradients of its differentiable inputs.
struct Program {
  explicit Program(const Case& c) : module(registry()) {
    ir::Graph& graph = module.add_graph("main");
    ir::Builder builder(graph);
    std::vector<Value*> operands;
    for (const Input& input : c.inputs) {
      operands.push_back(input.absent ? nullptr : graph.add_input(input.type));
    }
    ir::Op* op = builder.emit(c.op, operands, c.attrs);
    std::vector<Value*> outputs;
    for (size_t i : c.results) outputs.push_back(op->result(i));
    std::vector<Value*> output_grads(op->result_count(), nullptr);
    for (size_t i : c.results) {
      weights.push_back(real(op->result(i)->type().shape, 0.5, 2).values);
      output_grads[i] = builder.constant(literal(op->result(i)->type(), weights.back()));
    }
    GradBuilder g(builder, *op, output_grads);
    for (const Input& input : c.inputs) g.needed.push_back(input.differentiable);
    const auto grads = std::get<ir::GradRule>(op->def().grad)(g);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (!c.inputs[i].differentiable) continue;
      EXPECT_LT(i, grads.size()) << c.op;
      Value* grad = i < grads.size() ? grads[i] : nullptr;
      zero.push_back(grad == nullptr);
      if (!grad) continue;
      EXPECT_EQ(grad->type(), c.inputs[i].type) << c.op << ": operand " << i;
      outputs.push_back(grad);
    }
    graph.set_outputs(outputs);
    ir::verify(module);
  }

  std::vector<Literal> run(const std::vector<Input>& inputs) const {
    std::vector<Literal> values;
    for (const Input& input : inputs) {
      if (!input.absent) values.push_back(literal(input.type, input.values));
    }
    return reference::Interpreter(module).run_one(values);
  }

  double loss(const std::vector<Input>& inputs) const {
    const auto results = run(inputs);
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      for (size_t k = 0; k < weights[i].size(); ++k) {
        sum += weights[i][k] * results[i].number_at(static_cast<int64_t>(k));
      }
    }
    return sum;
  }

  ir::Module module;
  std::vector<std::vector<double>> weights;
  std::vector<bool> zero;  // of the differentiable inputs: the rule gave no gradient
};

void check(const Case& c) {
  SCOPED_TRACE(c.op);
  const Program program(c);
  const auto outputs = program.run(c.inputs);
  size_t next = program.weights.size(), differentiable = 0;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].differentiable) continue;
    const bool zero = program.zero[differentiable++];
    for (size_t k = 0; k < c.inputs[i].values.size(); ++k) {
      auto moved = c.inputs;
      const double step = 1e-5;
      moved[i].values[k] += step;
      const double above = program.loss(moved);
      moved[i].values[k] -= 2 * step;
      const double expected = (above - program.loss(moved)) / (2 * step);
      const double got = zero ? 0 : outputs[next].number_at(static_cast<int64_t>(k));
      EXPECT_NEAR(got, expected, 1e-7 * (1 + std::fabs(expected)))
          << "operand " << i << ", element " << k;
    }
    if (!zero) ++next;
  }
}

bool is_finite(const Case& c) {
  for (const Literal& result : Program(c).run(c.inputs)) {
    for (int64_t i = 0; i < result.type().elements(); ++i) {
      if (!std::isfinite(result.number_at(i))) return false;
    }
  }
  return true;
}

// Returns the names of element-wise rows with `operands` operands, all numbers, and without
// required attributes.
std::vector<std::string> elementwise_ops(size_t operands) {
  using Rule = ir::OperandDef::Rule;
  std::vector<std::string> names;
  for (const ir::OpDef* def : registry().all()) {
    bool takes = def->elementwise && def->operand_defs.size() == operands &&
                 std::holds_alternative<ir::GradRule>(def->grad);
    for (const auto& operand : def->operand_defs) {
      takes &= operand.rule != Rule::kInt && operand.rule != Rule::kBool &&
               operand.rule != Rule::kDType && !operand.variadic;
    }
    for (const auto& attr : def->attrs) takes &= attr.default_value.has_value();
    if (takes) names.push_back(def->name);
  }
  return names;
}

// Cases for every element-wise op, at points where it and its gradient are finite, and others.
std::vector<Case> unary_cases() {
  std::vector<Case> cases;
  for (const std::string& op : elementwise_ops(1)) {
    for (const auto& [low, high] : {std::pair(-0.9, 0.9), {0.3, 2.9}, {1.2, 3.0}}) {
      const Case one = {op, {real({2, 3}, low, high)}};
      if (!is_finite(one)) continue;
      cases.push_back(one);
      break;
    }
  }
  cases.push_back({"gelu", {real({3}, -2, 2)}, {{"approximate", std::string("tanh")}}});
  for (const char* approximate : {"none", "tanh"}) {
    cases.push_back({"gelu_grad",
                     {real({2, 3}, -2, 2), real({3})},
                     {{"approximate", std::string(approximate)}}});
  }
  cases.push_back({"elu", {real({3})}, {{"alpha", 1.7}, {"scale", 1.05}, {"input_scale", 0.8}}});
  cases.push_back({"cast", {real({3})}, {{"dtype", DType::kF64}}});
  cases.push_back({"clamp", {real({5})}, {{"low", -0.4}, {"high", 0.3}}});
  cases.push_back({"pow2_scale", {real({2, 3}), ints({}, {-3})}});
  cases.push_back({"print_tensor", {real({2})}});
  return cases;
}

std::vector<Case> binary_cases() {
  std::vector<Case> cases;
  for (const std::string& op : elementwise_ops(2)) {
    cases.push_back({op, {real({2, 3}, 0.3, 2.1), real({3}, 0.45, 1.9)}});
    cases.push_back({op, {real({2, 1}, 0.3, 2.1), real({1, 3}, 0.45, 1.9)}});
  }
  cases.push_back({"maximum", {exactly({2}, {1, 2}), exactly({1}, {0.5})}});
  cases.push_back({"select", {bools({3}, {1, 0, 1}), real({2, 3}), real({}, 0.2, 0.4)}});
  return cases;
}

std::vector<Case> matrix_cases() {
  std::vector<Case> cases;
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      cases.push_back({"matmul",
                       {real(ta ? Shape{2, 1, 3, 2} : Shape{2, 1, 2, 3}),
                        real(tb ? Shape{2, 4, 3} : Shape{2, 3, 4})},
                       {{"transpose_a", ta}, {"transpose_b", tb}}});
    }
  }
  cases.push_back({"linear", {real({2, 3, 4}), real({5, 4}), real({5})}});
  cases.push_back({"linear", {real({3, 4}), real({5, 4})}});
  Attrs conv{{"strides", Ints{2, 1}},
             {"padding", Ints{1, 0}},
             {"dilation", Ints{1, 2}},
             {"groups", int64_t{2}}};
  cases.push_back({"conv", {real({2, 4, 4, 5}), real({4, 2, 3, 2}), real({4})}, conv});
  Attrs of_input = conv, of_weight = conv;
  of_input.set("input_shape", Ints{2, 4, 4, 5});
  of_weight.set("weight_shape", Ints{4, 2, 3, 2});
  cases.push_back({"conv_grad_input", {real({2, 4, 2, 3}), real({4, 2, 3, 2})}, of_input});
  cases.push_back({"conv_grad_weight", {real({2, 4, 4, 5}), real({2, 4, 2, 3})}, of_weight});
  conv.set("output_padding", Ints{1, 0});
  cases.push_back({"conv_transpose", {real({2, 4, 2, 3}), real({4, 1, 3, 2}), real({2})}, conv});
  cases.push_back({"conv",
                   {real({1, 2, 6}), real({3, 2, 2})},
                   {{"strides", Ints{1}}, {"padding", Ints{0}}, {"dilation", Ints{1}}}});
  const Attrs pool{{"kernel", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"padding", Ints{1, 0}}};
  for (bool ceil : {false, true}) {
    Attrs max = pool, mean = pool;
    max.set("ceil_mode", ceil);
    max.set("dilation", Ints{1, 2});
    mean.set("ceil_mode", ceil);
    mean.set("count_include_pad", ceil);
    cases.push_back({"max_pool", {real({1, 2, 4, 5})}, max});
    cases.push_back({"avg_pool", {real({1, 2, 4, 5})}, mean});
    mean.set("input_shape", Ints{1, 2, 4, 5});
    cases.push_back({"avg_pool_grad", {real({1, 2, ceil ? 3 : 2, 4})}, mean});
  }
  return cases;
}

std::vector<Case> reduction_cases() {
  std::vector<Case> cases;
  for (const char* op : {"sum", "mean", "max", "min", "prod", "logsumexp"}) {
    cases.push_back({op, {real({2, 3, 2})}, {{"axes", Ints{0, 2}}}});
    cases.push_back({op, {real({2, 3})}, {{"axes", Ints{1}}, {"keepdims", true}}});
  }
  cases.push_back({"prod", {exactly({2, 3}, {2, 0, 3, 0, 0, 5})}, {{"axes", Ints{1}}}});
  for (const char* op : {"cumsum", "cumprod"}) {
    cases.push_back({op, {real({2, 3})}, {{"axis", int64_t{1}}}});
    cases.push_back({op, {real({3, 2})}, {{"axis", int64_t{0}}}});
  }
  cases.push_back({"cumprod", {exactly({4}, {2, 0, 3, 0})}, {{"axis", int64_t{0}}}});
  for (bool reverse : {false, true}) {
    const Attrs along{{"axis", int64_t{1}}, {"reverse", reverse}};
    cases.push_back({"linear_recurrence", {real({2, 4, 2}), real({2, 4, 2}, -1, 1)}, along});
  }
  cases.push_back({"sort", {real({2, 4})}, {{"axis", int64_t{1}}, {"descending", true}}});
  cases.push_back({"topk", {real({4, 2})}, {{"axis", int64_t{0}}, {"k", int64_t{2}}}});
  for (const char* op : {"softmax_grad", "log_softmax_grad"}) {
    cases.push_back({op, {real({2, 3}), real({2, 3}, -2, 1)}, {{"axis", int64_t{1}}}});
  }
  for (const char* op : {"softmax", "log_softmax"}) {
    cases.push_back({op, {real({2, 3, 2})}, {{"axis", int64_t{1}}}});
  }
  return cases;
}

std::vector<Case> shape_cases() {
  const Attrs slice{{"starts", Ints{0, 1}}, {"stops", Ints{2, 4}}, {"steps", Ints{1, 2}}};
  std::vector<Case> cases = {
      {"reshape", {real({2, 3})}, {{"shape", Ints{3, 2}}}},
      {"transpose", {real({2, 3, 4})}, {{"permutation", Ints{2, 0, 1}}}},
      {"broadcast_to", {real({2, 1})}, {{"shape", Ints{3, 2, 4}}}},
      {"reverse", {real({2, 3})}, {{"axes", Ints{1}}}},
      {"concat", {real({2, 1}), real({2, 3}), real({2, 2})}, {{"axis", int64_t{1}}}},
      {"slice", {real({2, 4})}, slice},
      {"insert_slice", {real({2, 4}), real({2, 2})}, slice},
  };
  for (const char* mode : {"constant", "reflect", "replicate"}) {
    cases.push_back({"pad",
                     {real({3, 4})},
                     {{"low", Ints{1, 0}}, {"high", Ints{2, 3}}, {"mode", std::string(mode)}}});
    cases.push_back({"pad_grad",
                     {real({6, 7})},
                     {{"low", Ints{1, 0}}, {"high", Ints{2, 3}}, {"mode", std::string(mode)}}});
  }
  return cases;
}

std::vector<Case> index_cases() {
  const Attrs axis{{"axis", int64_t{1}}};
  Attrs sum = axis;
  sum.set("reduction", std::string("sum"));
  return {
      {"embedding", {real({4, 2}), ints({3}, {3, 0, 3})}},
      {"embedding_grad", {real({3, 2}), ints({3}, {3, 0, 3})}, {{"rows", int64_t{4}}}},
      {"embedding_grad",
       {real({3, 2}), ints({3}, {3, 0, 3})},
       {{"rows", int64_t{4}}, {"padding_index", int64_t{3}}}},
      {"gather", {real({2, 3}), ints({2, 2}, {2, 0, 1, 1})}, axis},
      {"scatter", {real({2, 3}), ints({2, 2}, {2, 0, 1, 0}), real({2, 2})}, axis},
      {"scatter", {real({2, 3}), ints({2, 2}, {2, 2, 1, 0}), real({2, 2})}, sum},
      {"index_select", {real({2, 3}), ints({4}, {2, 0, 2, 1})}, axis},
      {"index_add", {real({2, 3}), ints({2}, {2, 2}), real({2, 2})}, axis},
      {"index", {real({3, 2, 2}), ints({2, 1}, {2, 0}), ints({2}, {1, 1})}},
      {"index_put", {real({3, 2}), real({2, 2}), ints({2}, {2, 0})}},
      {"index_put", {real({3, 2}), real({2, 2}), ints({2}, {2, 2})}, {{"accumulate", true}}},
      {"dynamic_slice",
       {real({2, 4}), ints({}, {3})},
       {{"axis", int64_t{1}}, {"size", int64_t{2}}}},
      {"dynamic_update", {real({2, 4}), real({2, 2}), ints({}, {3})}, axis},
  };
}

std::vector<Case> layer_cases() {
  const Input target = ints({4}, {2, 0, -100, 1});
  const Input logp = real({4, 3}, -2, -0.1), weight = fixed(real({3}, 0.5, 2));
  std::vector<Case> cases;
  for (const char* reduction : {"mean", "sum", "none"}) {
    const Attrs attrs{{"reduction", std::string(reduction)}};
    Attrs smooth = attrs;
    smooth.set("label_smoothing", 0.2);
    cases.push_back({"nll_loss", {logp, target, weight}, attrs});
    cases.push_back({"softmax_cross_entropy", {logp, target}, attrs});
    cases.push_back({"softmax_cross_entropy", {logp, target, weight}, smooth, {0, 1}});
    cases.push_back({"identity_loss", {real({2, 3})}, attrs});
    const Input dloss = std::string(reduction) == "none" ? real({4}) : real({});
    cases.push_back({"nll_loss_grad", {logp, target, weight, dloss}, attrs});
    cases.push_back({"softmax_cross_entropy_grad", {logp, target, weight, dloss}, smooth});
  }
  cases.push_back({"nll_loss", {real({2, 3, 2}, -2, 0), ints({2, 2}, {2, 1, 0, 0})}});
  cases.push_back({"softmax_cross_entropy", {real({3}), ints({}, {2})}});
  const Input x = real({3, 4, 2}), channel = real({4}, 0.5, 2), width = real({4, 2}, 0.5, 2);
  cases.push_back({"batch_norm", {x, channel, real({4})}, {{"momentum", 0.1}}});
  cases.push_back({"batch_norm", {x, absent(), absent(), fixed(real({4})), fixed(channel)}});
  cases.push_back(
      {"batch_norm_inference", {x, channel, real({4}), fixed(real({4})), fixed(channel)}});
  cases.push_back({"layer_norm", {x, width, real({4, 2})}, {{"axes_count", int64_t{2}}}});
  cases.push_back({"layer_norm", {x}});
  cases.push_back({"group_norm", {x, channel, real({4})}, {{"groups", int64_t{2}}}});
  for (int64_t samples : {0, 2}) {
    const Attrs attrs{
        {"rows", int64_t{2}}, {"columns", int64_t{3}}, {"scale", 0.5}, {"samples", samples}};
    const Input edges = exactly({4, 4}, {0.37, 0.4, 7.1, 5.3, 2.2, 3.1, 2.6, 3.7, -3.3, -2.1, 12.7,
                                         11.9, 4.1, 3.3, 6.7, 6.1});
    cases.push_back({"roi_align", {real({2, 2, 5, 6}), edges, ints({4}, {0, 1, 1, 2})}, attrs});
  }
  const Input q = real({1, 2, 3, 4}), k = real({1, 2, 5, 4}, -0.8, 1), v = real({1, 2, 5, 2});
  for (bool causal : {false, true}) {
    const Attrs attrs{{"causal", causal}, {"scale", 0.5}};
    cases.push_back({"attention", {q, k, v}, attrs});
    if (!causal) cases.push_back({"attention", {q, k, v, real({2, 1, 5})}, attrs});
  }
  for (bool reverse : {false, true}) {
    const Attrs attrs{{"reverse", reverse}};
    const Input steps = real({3, 2, 2}), state = real({2, 3});
    cases.push_back({"lstm",
                     {steps, state, real({2, 3}, -0.5, 0.9), real({12, 2}), real({12, 3}),
                      real({12}), real({12}, -0.3, 0.3)},
                     attrs,
                     {0, 1, 2}});
    cases.push_back({"gru",
                     {steps, state, real({9, 2}), real({9, 3}), real({9}), real({9}, -0.3, 0.3)},
                     attrs,
                     {0, 1}});
  }
  return cases;
}

std::vector<Case> other_cases() {
  return {{"dropout", {real({20})}, {{"p", 0.4}}},
          {"bernoulli", {fixed(real({3}, 0, 1))}},
          {"random_poisson", {fixed(real({3}, 0, 1))}},
          {"random_binomial", {fixed(real({3}, 1, 5)), fixed(real({3}, 0, 1))}},
          {"ipu_copy", {real({2})}, {{"to", int64_t{1}}}},
          {"all_reduce", {real({2})}, {{"group_size", int64_t{1}}}},
          {"all_gather", {real({2})}, {{"group_size", int64_t{1}}}},
          {"reduce_scatter", {real({1, 2})}, {{"group_size", int64_t{1}}}},
          {"all_to_all", {real({1, 2})}, {{"group_size", int64_t{1}}}}};
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* cases : {unary_cases, binary_cases, matrix_cases, reduction_cases, shape_cases,
                      index_cases, layer_cases, other_cases}) {
    for (Case& c : cases()) all.push_back(std::move(c));
  }
  return all;
}

TEST(Gradients, EqualCentralDifferences) {
  for (const Case& c : all_cases()) check(c);
}

TEST(Gradients, EveryRuleHasACase) {
  // Gradients by torch and by libraries are not tested here, and the gradient of this op is not its
  // derivative.
  std::set<std::string> covered = {"aten", "custom", "with_history"};
  for (const Case& c : all_cases()) covered.insert(c.op);
  for (const ir::OpDef* def : registry().all()) {
    if (std::holds_alternative<NoGradient>(def->grad)) continue;
    EXPECT_TRUE(covered.count(def->name)) << def->name;
  }
}

}  // namespace
}  // namespace poptorch::ops
