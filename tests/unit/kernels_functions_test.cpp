// Mathematical functions of tile programs: close to those of float64, also at special values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tile_testing.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

void expect_near(float have, float want, double limit, const std::string& call) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(have)) << call << " = " << have;
  } else if (std::isinf(want) || want == 0) {
    EXPECT_EQ(have, want) << call;
  } else {
    EXPECT_NEAR(have, want, limit) << call;
  }
}

struct UnaryCase {
  const char* name;
  double (*exact)(double);
  float low, high;
};

class UnaryOp : public testing::TestWithParam<UnaryCase> {};

TEST_P(UnaryOp, IsNearFloat64AndIndependentOfBlocks) {
  const UnaryCase c = GetParam();
  const int64_t n = 5003;
  std::vector<float> x = numbers(n, c.low, c.high), y(n), again(n);
  TileProgramBuilder builder({n});
  const int r = builder.input({DType::kF32, {n}});
  builder.output(builder.op(op(c.name), {}, {r}, {DType::kF32})[0]);
  auto program = builder.finish();
  run(*program, {bytes(x), bytes(y)});
  for (int64_t i = 0; i < n; ++i) {
    const double want = c.exact(x[i]);
    const double ulp = std::fabs(std::nextafter(static_cast<float>(want), INFINITY) - want);
    const double limit = std::max(2.5 * ulp, 1e-6 * std::max(1.0, std::fabs(want)));
    ASSERT_NEAR(y[i], want, limit) << c.name << "(" << x[i] << ")";
  }
  std::mt19937 random(7);
  for (int64_t first = 0; first < n;) {
    const int64_t cols = std::min<int64_t>(n - first, 1 + random() % 700);
    run(*program, {bytes(x), bytes(again)}, {.first = first, .cols = cols});
    first += cols;
  }
  EXPECT_EQ(std::memcmp(y.data(), again.data(), n * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, UnaryOp,
    testing::Values(
        UnaryCase{"exp", std::exp, -87, 88}, UnaryCase{"log", std::log, 1e-6f, 100},
        UnaryCase{"tanh", std::tanh, -10, 10}, UnaryCase{"erf", std::erf, -5, 5},
        UnaryCase{"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -30, 30},
        UnaryCase{"sin", std::sin, -1000, 1000}, UnaryCase{"cos", std::cos, -1000, 1000},
        UnaryCase{"sin", std::sin, -1e9, 1e9}, UnaryCase{"sqrt", std::sqrt, 0, 100},
        UnaryCase{"gelu", [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }, -6,
                  6},
        UnaryCase{"silu", [](double x) { return x / (1 + std::exp(-x)); }, -20, 20},
        UnaryCase{"erfinv",
                  [](double x) {  // inverted by bisection
                    double low = -5, high = 5;
                    for (int i = 0; i < 80; ++i) {
                      (std::erf((low + high) / 2) < x ? low : high) = (low + high) / 2;
                    }
                    return low;
                  },
                  -0.999f, 0.999f},
        UnaryCase{"lgamma", std::lgamma, 0.1f, 20}, UnaryCase{"lgamma", std::lgamma, -20, 1e4f},
        UnaryCase{"log1p", std::log1p, -0.99f, 10}, UnaryCase{"log1p", std::log1p, -1e-3f, 1e-3f},
        UnaryCase{"log2", std::log2, 1e-6f, 100}, UnaryCase{"log10", std::log10, 1e-6f, 1e30f},
        UnaryCase{"expm1", std::expm1, -30, 88}, UnaryCase{"expm1", std::expm1, -0.1f, 0.1f},
        UnaryCase{"sinh", std::sinh, -89, 89}, UnaryCase{"sinh", std::sinh, -2, 2},
        UnaryCase{"cosh", std::cosh, -89, 89}, UnaryCase{"asinh", std::asinh, -1e9f, 1e9f},
        UnaryCase{"asinh", std::asinh, -2, 2}, UnaryCase{"acosh", std::acosh, 1, 5},
        UnaryCase{"acosh", std::acosh, 1, 1e9f}, UnaryCase{"atanh", std::atanh, -0.9999f, 0.9999f},
        UnaryCase{"tan", std::tan, -1.5f, 1.5f}, UnaryCase{"tan", std::tan, -1e7f, 1e7f},
        UnaryCase{"asin", std::asin, -1, 1}, UnaryCase{"acos", std::acos, -1, 1},
        UnaryCase{"atan", std::atan, -10, 10}, UnaryCase{"atan", std::atan, -1e9f, 1e9f},
        UnaryCase{"softplus", [](double x) { return std::log1p(std::exp(x)); }, -20, 20}));

struct SpecialValues {
  const char* name;
  double (*exact)(double);
};

TEST(Functions, OfSpecialValuesAreThoseOfTheLibrary) {
  std::vector<float> x = {0.0f,   -0.0f,   1,      -1,    2,      -2,    INFINITY, -INFINITY, NAN,
                          1e-40f, -1e-40f, 1e-20f, 3e38f, -3e38f, 88.9f, -88.9f,   1e10f};
  const SpecialValues functions[] = {
      {"exp", std::exp},     {"log", std::log},     {"log1p", std::log1p},  {"log2", std::log2},
      {"log10", std::log10}, {"expm1", std::expm1}, {"sinh", std::sinh},    {"cosh", std::cosh},
      {"tanh", std::tanh},   {"asinh", std::asinh}, {"acosh", std::acosh},  {"atanh", std::atanh},
      {"sin", std::sin},     {"cos", std::cos},     {"tan", std::tan},      {"asin", std::asin},
      {"acos", std::acos},   {"atan", std::atan},   {"lgamma", std::lgamma}};
  const int64_t n = static_cast<int64_t>(x.size());
  for (const SpecialValues& function : functions) {
    std::vector<float> y(n);
    TileProgramBuilder builder({n});
    const int r = builder.input({DType::kF32, {n}});
    builder.output(builder.op(op(function.name), {}, {r}, {DType::kF32})[0]);
    run(*builder.finish(), {bytes(x), bytes(y)});
    for (int64_t i = 0; i < n; ++i) {
      const float want = static_cast<float>(function.exact(x[i]));
      expect_near(y[i], want, 1e-6 * std::max(1.0f, std::fabs(want)),
                  std::string(function.name) + "(" + std::to_string(x[i]) + ")");
    }
  }
}

TEST(Functions, OfTwoNumbersAreThoseOfTheLibrary) {
  const float values[] = {0.0f,  -0.0f,  1,        -1,        2,     -2,          3,
                          -0.5f, 0.5f,   2.5f,     -7,        1e10f, 16777216.0f, -3e38f,
                          3e38f, 1e-40f, INFINITY, -INFINITY, NAN};
  std::vector<float> x, z;
  for (const float one : values) {
    for (const float other : values) x.push_back(one), z.push_back(other);
  }
  std::mt19937 random(3);
  std::uniform_real_distribution<float> wide(-30, 30);
  for (int i = 0; i < 4000; ++i) x.push_back(wide(random)), z.push_back(wide(random));
  const int64_t n = static_cast<int64_t>(x.size());
  auto python_remainder = [](double a, double b) {
    const double m = std::fmod(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
  };
  using Exact = double (*)(double, double);
  const std::pair<const char*, Exact> functions[] = {
      {"pow", [](double a, double b) { return std::pow(a, b); }},
      {"atan2", [](double a, double b) { return std::atan2(a, b); }},
      {"fmod", [](double a, double b) { return std::fmod(a, b); }},
      {"remainder", python_remainder}};
  for (const auto& [name, exact] : functions) {
    std::vector<float> y(n);
    TileProgramBuilder builder({n});
    const int a = builder.input({DType::kF32, {n}}), b = builder.input({DType::kF32, {n}});
    builder.output(builder.op(op(name), {}, {a, b}, {DType::kF32})[0]);
    run(*builder.finish(), {bytes(x), bytes(z), bytes(y)});
    for (int64_t i = 0; i < n; ++i) {
      const float want = static_cast<float>(exact(x[i], z[i]));
      expect_near(
          y[i], want, 1e-6 * std::fabs(want),
          std::string(name) + "(" + std::to_string(x[i]) + ", " + std::to_string(z[i]) + ")");
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
