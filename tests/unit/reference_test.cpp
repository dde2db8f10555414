// Reference kernels: spot values, dtypes and the random generator's published vectors.
#include "reference/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/op_def.hpp"
#include "ops/all_ops.hpp"
#include "reference/convert.hpp"
#include "support/error.hpp"

namespace poptorch::reference {
namespace {

using ir::Attrs;
using ir::DType;
using ir::Ints;
using ir::Shape;
using ir::Type;

struct Tensor {
  Type type;
  std::vector<double> values;
};

Tensor f32(Shape shape, std::vector<double> values) {
  return {{DType::kF32, std::move(shape)}, std::move(values)};
}
Tensor i32(Shape shape, std::vector<double> values) {
  return {{DType::kI32, std::move(shape)}, std::move(values)};
}

// Runs one op; operands without elements in their type list are absent. Operands are updated.
std::vector<std::vector<double>> run(const char* name, std::vector<std::optional<Tensor>>& operands,
                                     Attrs attrs = {}, RandomKey random = {}) {
  const ir::OpDef& def = ops::registry().get(name);
  std::vector<const Type*> types;
  std::vector<std::optional<Type>> inputs;
  std::vector<std::vector<std::byte>> memory;
  for (auto& operand : operands) {
    types.push_back(operand ? &operand->type : nullptr);
    inputs.push_back(operand ? std::optional(operand->type) : std::nullopt);
    memory.emplace_back(operand ? static_cast<size_t>(operand->type.bytes()) : 0);
    if (operand) {
      from_doubles(operand->type.dtype, operand->values.data(), operand->type.elements(),
                   memory.back().data());
    }
  }
  ir::InferContext context(def, types, attrs, nullptr);
  const std::vector<Type> outputs = def.infer(context);
  for (const Type& type : outputs) memory.emplace_back(static_cast<size_t>(type.bytes()));
  std::vector<std::byte*> buffers;
  for (auto& bytes : memory) buffers.push_back(bytes.empty() ? nullptr : bytes.data());
  run_reference({def, attrs, inputs, outputs, buffers.data(), random});
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) continue;
    operands[i]->values =
        to_doubles(operands[i]->type.dtype, buffers[i], operands[i]->type.elements());
  }
  std::vector<std::vector<double>> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(
        to_doubles(outputs[i].dtype, buffers[operands.size() + i], outputs[i].elements()));
  }
  return results;
}

std::vector<double> one(const char* name, std::vector<std::optional<Tensor>> operands,
                        Attrs attrs = {}) {
  return run(name, operands, std::move(attrs))[0];
}

using Values = std::vector<double>;

TEST(Convert, RoundsHalvesToNearestEven) {
  for (double value : {0.0, -0.0, 1.0, 0.1, 2049.0, 2051.0, 65504.0, 65519.9, 65520.0, 6.0e-8,
                       2.9e-8, -1.5e-5, 6.1e-5, 1e9, double(INFINITY)}) {
    std::byte bits[2];
    from_doubles(DType::kF16, &value, 1, bits);
    EXPECT_EQ(to_doubles(DType::kF16, bits, 1)[0], ir::from_half_bits(ir::to_half_bits(value)))
        << value;
    from_doubles(DType::kBF16, &value, 1, bits);
    EXPECT_EQ(to_doubles(DType::kBF16, bits, 1)[0],
              ir::from_bfloat16_bits(ir::to_bfloat16_bits(value)))
        << value;
  }
  for (uint32_t i = 0; i < 65536; i += 7) {  // every third value and the midpoint above it
    const double a = ir::from_half_bits(static_cast<uint16_t>(i));
    if (!std::isfinite(a)) continue;
    for (double value : {a, a * (1 + 0x1p-12), a * (1 + 0x1p-11), a * (1 + 0x1.8p-11)}) {
      EXPECT_EQ(rounded_to(DType::kF16, value), ir::from_half_bits(ir::to_half_bits(value)));
    }
  }
}

TEST(Convert, TruncatesAndWrapsIntegers) {
  EXPECT_EQ(one("cast", {f32({3}, {-1.9, 2.9, 0.0})}, {{"dtype", DType::kI32}}),
            (Values{-1, 2, 0}));
  EXPECT_EQ(one("cast", {i32({2}, {300, -1})}, {{"dtype", DType::kU8}}), (Values{44, 255}));
  EXPECT_EQ(one("cast", {f32({3}, {0, -0.5, NAN})}, {{"dtype", DType::kBool}}), (Values{0, 1, 1}));
}

TEST(Elementwise, BroadcastsAndKeepsIntegersExact) {
  EXPECT_EQ(one("add", {f32({2, 1}, {1, 2}), f32({3}, {10, 20, 30})}),
            (Values{11, 21, 31, 12, 22, 32}));
  EXPECT_EQ(one("floor_div", {i32({4}, {7, -7, 7, -7}), i32({4}, {2, 2, -2, -2})}),
            (Values{3, -4, -4, 3}));
  EXPECT_EQ(one("remainder", {i32({4}, {7, -7, 7, -7}), i32({4}, {2, 2, -2, -2})}),
            (Values{1, 1, -1, -1}));
  EXPECT_EQ(one("sign", {f32({4}, {-3, 0, 2, NAN})}), (Values{-1, 0, 1, 0}));
  EXPECT_TRUE(std::isnan(one("maximum", {f32({}, {NAN}), f32({}, {1})})[0]));
  EXPECT_TRUE(std::isnan(one("relu", {f32({}, {NAN})})[0]));
  EXPECT_EQ(one("round", {f32({4}, {0.5, 1.5, 2.5, -0.5})}), (Values{0, 2, 2, 0}));
}

TEST(Matmul, TransposesAndBroadcastsBatches) {
  const auto a = f32({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const auto b = f32({2, 2, 3}, {1, 0, 0, 0, 1, 0, 1, 1, 1, 2, 2, 2});
  EXPECT_EQ(one("matmul", {a, b}, {{"transpose_b", true}}), (Values{1, 2, 4, 5, 6, 12, 15, 30}));
  EXPECT_EQ(one("linear", {f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({2, 3}, {1, 0, 0, 0, 0, 1}),
                           f32({2}, {10, 20})}),
            (Values{11, 23, 14, 26}));
}

TEST(Conv, GradientsAreTheAdjoint) {
  // <conv(x, w), dy> = <x, grad_input(dy, w)> = <w, grad_weight(x, dy)>.
  auto ramp = [](Shape shape, double phase) {
    Tensor t = f32(std::move(shape), {});
    for (int64_t i = 0; i < t.type.elements(); ++i) {
      t.values.push_back(std::floor(8 * std::sin(phase + 1.7 * static_cast<double>(i))));
    }
    return t;
  };
  auto dot = [](const Values& a, const Values& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  Attrs attrs{{"strides", Ints{2, 1}},
              {"padding", Ints{1, 2}},
              {"dilation", Ints{1, 2}},
              {"groups", int64_t{2}}};
  const Tensor x = ramp({2, 4, 5, 6}, 0.1), w = ramp({6, 2, 3, 2}, 0.7);
  const Tensor dy = ramp({2, 6, 3, 8}, 1.3);
  const double expected = dot(one("conv", {x, w}, attrs), dy.values);
  Attrs input = attrs, weight = attrs;
  input.set("input_shape", Ints(x.type.shape));
  weight.set("weight_shape", Ints(w.type.shape));
  EXPECT_EQ(dot(x.values, one("conv_grad_input", {dy, w}, input)), expected);
  EXPECT_EQ(dot(w.values, one("conv_grad_weight", {x, dy}, weight)), expected);
}

TEST(Pool, PadsAndCountsAsTorchDoes) {
  const auto x = f32({1, 1, 4}, {1, 5, 5, 2});
  Attrs attrs{{"kernel", Ints{3}}, {"strides", Ints{2}}, {"padding", Ints{1}}};
  EXPECT_EQ(one("avg_pool", {x}, attrs), (Values{2, 4}));
  Attrs inside = attrs;
  inside.set("count_include_pad", false);
  EXPECT_EQ(one("avg_pool", {x}, inside), (Values{3, 4}));
  attrs.set("dilation", Ints{1});
  EXPECT_EQ(one("max_pool", {x}, attrs), (Values{5, 5}));
  EXPECT_EQ(one("max_pool_grad", {x, f32({1, 1, 2}, {5, 5}), f32({1, 1, 2}, {10, 1})}, attrs),
            (Values{0, 11, 0, 0}));
}

TEST(Reduce, KeepsOrderOfTies) {
  const auto x = f32({2, 3}, {1, 3, 3, 0, -1, -1});
  EXPECT_EQ(one("sum", {x}, {{"axes", Ints{0}}}), (Values{1, 2, 2}));
  EXPECT_EQ(one("argmax", {x}, {{"axis", int64_t{1}}}), (Values{1, 0}));
  EXPECT_EQ(one("argmin", {x}, {{"axis", int64_t{1}}}), (Values{0, 1}));
  EXPECT_EQ(one("cumsum", {x}, {{"axis", int64_t{1}}}), (Values{1, 4, 7, 0, -1, -2}));
  std::vector<std::optional<Tensor>> operands = {x};
  auto sorted = run("sort", operands, {{"axis", int64_t{1}}, {"descending", true}});
  EXPECT_EQ(sorted[0], (Values{3, 3, 1, 0, -1, -1}));
  EXPECT_EQ(sorted[1], (Values{1, 2, 0, 0, 1, 2}));
}

TEST(Shape, MovesElements) {
  const auto x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(one("transpose", {x}, {{"permutation", Ints{1, 0}}}), (Values{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(one("reverse", {x}, {{"axes", Ints{1}}}), (Values{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(one("concat", {x, f32({2, 1}, {7, 8})}, {{"axis", int64_t{1}}}),
            (Values{1, 2, 3, 7, 4, 5, 6, 8}));
  Attrs slice{{"starts", Ints{0, 1}}, {"stops", Ints{2, 3}}, {"steps", Ints{1, 1}}};
  EXPECT_EQ(one("slice", {x}, slice), (Values{2, 3, 5, 6}));
  EXPECT_EQ(one("insert_slice", {x, f32({2, 2}, {7, 8, 9, 0})}, slice), (Values{1, 7, 8, 4, 9, 0}));
  EXPECT_EQ(one("pad", {f32({3}, {1, 2, 3})},
                {{"low", Ints{2}}, {"high", Ints{1}}, {"mode", std::string("reflect")}}),
            (Values{3, 2, 1, 2, 3, 2}));
}

TEST(Loss, IgnoresSmoothsAndWeighs) {
  const auto logits = f32({2, 3}, {1, 2, 3, 1, 1, 1});
  const double row = 3 + std::log(std::exp(-2) + std::exp(-1) + 1);
  EXPECT_NEAR(one("softmax_cross_entropy", {logits, i32({2}, {0, -100})})[0], row - 1, 1e-6);
  EXPECT_NEAR(one("softmax_cross_entropy", {logits, i32({2}, {2, 1}), f32({3}, {1, 3, 1})})[0],
              (row - 3 + 3 * std::log(3.0)) / 4, 1e-6);
  EXPECT_NEAR(
      one("softmax_cross_entropy", {logits, i32({2}, {2, -100})}, {{"label_smoothing", 0.3}})[0],
      0.7 * (row - 3) + 0.1 * (3 * row - 6), 1e-6);
  EXPECT_THROW(one("nll_loss", {logits, i32({2}, {3, 0})}), support::UserError);
}

TEST(Update, AdamFollowsTorch) {
  // torch.optim.Adam on w = 1, g = 0.5, first step: the step is lr whatever the gradient.
  auto f64 = [](double v) { return Tensor{{DType::kF64, {}}, {v}}; };
  std::vector<std::optional<Tensor>> operands = {
      f32({1}, {1}), f32({1}, {0}), f32({1}, {0}), f32({1}, {0.5}), f64(1),
      f64(0.1),      f64(0.9),      f64(0.999),    f64(0),          f64(0)};
  run("adam_update", operands);
  EXPECT_FLOAT_EQ(operands[0]->values[0], 0.9f);
  EXPECT_FLOAT_EQ(operands[1]->values[0], 0.05f);
  EXPECT_FLOAT_EQ(operands[2]->values[0], 0.00025f);
}

TEST(Update, MomentumStartsWithTheGradient) {
  auto f64 = [](double v) { return Tensor{{DType::kF64, {}}, {v}}; };
  std::vector<std::optional<Tensor>> operands = {
      f32({1}, {1}), f32({1}, {0}), f32({1}, {0.5}), f64(1), f64(0.25), f64(0), f64(0.5), f64(0.5)};
  run("sgd_momentum_update", operands);
  EXPECT_EQ(operands[1]->values[0], 0.5);
  EXPECT_EQ(operands[0]->values[0], 0.875);
  operands[3] = f64(2);
  run("sgd_momentum_update", operands);
  EXPECT_EQ(operands[1]->values[0], 0.5);
  EXPECT_EQ(operands[0]->values[0], 0.75);
}

TEST(Kernels, ExistForEveryOpThatComputes) {
  // The other kinds of op: state, regions, transfers, collectives, foreign kernels, printing.
  const std::set<std::string> others = {
      "variable",       "call",        "repeat",       "if",         "host_load",
      "host_store",     "remote_load", "remote_store", "all_reduce", "all_gather",
      "reduce_scatter", "all_to_all",  "aten",         "aten_vjp",   "parameter_gradient",
      "custom"};
  for (const ir::OpDef* def : ops::registry().all()) {
    EXPECT_NE(find_kernel(def->name) != nullptr, others.count(def->name) == 1) << def->name;
  }
}

TEST(Random, DependsOnKeyAndElementAlone) {
  const Attrs attrs{{"shape", Ints{1001}}};
  std::vector<std::optional<Tensor>> none;
  const RandomKey key{.seed = 42, .op_id = 7, .replica = 1, .micro_batch = 3};
  const Values first = run("random_normal", none, attrs, key)[0];
  EXPECT_EQ(run("random_normal", none, attrs, key)[0], first);
  const Values longer = run("random_normal", none, {{"shape", Ints{2000}}}, key)[0];
  EXPECT_TRUE(std::equal(first.begin(), first.end(), longer.begin()));
  for (RandomKey other : {RandomKey{43, 7, 1, 3}, RandomKey{42, 8, 1, 3}, RandomKey{42, 7, 0, 3},
                          RandomKey{42, 7, 1, 4}}) {
    EXPECT_NE(run("random_normal", none, attrs, other)[0], first);
  }
}

TEST(Random, HasTheMomentsOfItsDistribution) {
  const int64_t n = 200000;
  std::vector<std::optional<Tensor>> none;
  auto moments = [](const Values& x) {
    double mean = 0, square = 0;
    for (double v : x) mean += v / static_cast<double>(x.size());
    for (double v : x) square += (v - mean) * (v - mean) / static_cast<double>(x.size());
    return std::pair(mean, square);
  };
  // Five standard errors.
  auto [normal, variance] = moments(run("random_normal", none, {{"shape", Ints{n}}})[0]);
  EXPECT_NEAR(normal, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(variance, 1, 5 * std::sqrt(2.0 / n));
  auto [uniform, spread] = moments(run("random_uniform", none, {{"shape", Ints{n}}})[0]);
  EXPECT_NEAR(uniform, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(spread, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / n));
  std::vector<std::optional<Tensor>> ones = {f32({n}, Values(n, 1.0))};
  auto dropped = run("dropout", ones, {{"p", 0.3}});
  EXPECT_NEAR(moments(dropped[1]).first, 0.7, 5 * std::sqrt(0.21 / n));
  EXPECT_NEAR(moments(dropped[0]).first, 1.0, 5 * std::sqrt(0.21 / n) / 0.7);
}

TEST(Index, RepeatsAddInOrderAndOutOfRangeIsNowhere) {
  const auto x = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(one("embedding", {x, i32({3}, {2, 0, 9})}), (Values{5, 6, 1, 2, 0, 0}));
  EXPECT_EQ(one("embedding_grad", {f32({3, 1}, {1, 2, 4}), i32({3}, {1, 1, 0})},
                {{"rows", int64_t{3}}, {"padding_index", int64_t{0}}}),
            (Values{0, 3, 0}));
  EXPECT_EQ(one("gather", {x, i32({1, 2}, {2, 1})}, {{"axis", int64_t{0}}}), (Values{5, 4}));
  EXPECT_EQ(one("scatter", {x, i32({1, 2}, {2, 1}), f32({1, 2}, {9, 8})}, {{"axis", int64_t{0}}}),
            (Values{1, 2, 3, 8, 9, 6}));
  EXPECT_EQ(one("index_add", {x, i32({2}, {1, 1}), f32({3, 2}, {1, 1, 1, 1, 1, 1})},
                {{"axis", int64_t{1}}}),
            (Values{1, 4, 3, 6, 5, 8}));
  EXPECT_EQ(one("index", {x, i32({2, 1}, {0, 2}), i32({2}, {1, 0})}), (Values{2, 1, 6, 5}));
  EXPECT_EQ(one("index_put", {x, f32({2, 2}, {7, 7, 8, 8}), i32({2}, {1, 1})}),
            (Values{1, 2, 8, 8, 5, 6}));
  EXPECT_EQ(one("dynamic_slice", {f32({4}, {1, 2, 3, 4}), i32({}, {3})},
                {{"axis", int64_t{0}}, {"size", int64_t{2}}}),
            (Values{4, 1}));
}

TEST(Print, SummarisesAndKeepsTheValue) {
  Tensor x = i32({2, 9}, {});
  for (int i = 0; i < 18; ++i) x.values.push_back(i);
  testing::internal::CaptureStderr();
  EXPECT_EQ(one("print_tensor", {x},
                {{"title", std::string("x")},
                 {"summarise_threshold", int64_t{10}},
                 {"edge_items", int64_t{2}}}),
            x.values);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "x: [\n [ 0  1 ...  7  8]\n [ 9 10 ... 16 17]\n]\n");
}

TEST(Norm, CentresAndScales) {
  const auto x = f32({1, 4}, {1, 2, 3, 6});
  std::vector<std::optional<Tensor>> operands = {x, f32({4}, {1, 1, 1, 2}), std::nullopt};
  auto y = run("layer_norm", operands, {{"eps", 0.0}});
  EXPECT_EQ(y[1], (Values{3}));
  EXPECT_NEAR(y[0][3], 2 * 3 / std::sqrt(3.5), 1e-6);
  std::vector<std::optional<Tensor>> batch = {f32({4, 1}, {1, 2, 3, 6}), std::nullopt, std::nullopt,
                                              f32({1}, {10}), f32({1}, {20})};
  auto z = run("batch_norm", batch, {{"momentum", 0.5}, {"eps", 0.0}});
  EXPECT_EQ(z[3], (Values{6.5}));
  EXPECT_NEAR(z[4][0], 10 + 0.5 * 14.0 / 3, 1e-6);
}

TEST(Philox, GivesTheKnownAnswer) {
  // From Random123's kat_vectors: philox4x32-10 with key and counter 0. A key of 0 needs a seed
  // that cancels the op's part.
  const Philox zero(RandomKey{.seed = 0x9E3779B97F4A7C15ull});
  EXPECT_EQ(zero.block(0), (Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

}  // namespace
}  // namespace poptorch::reference
