// Micro-ops of one operand.
#include <cmath>

#include "emulator/kernels/sets/map_rows.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/vector_functions.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using enum RegisterClass;

template <typename F>
void add_unary_float(std::vector<MicroRow>& rows, const char* name, F f) {
  rows.push_back(row_of_one(name, f));
}
template <typename F>
void add_exact_float(std::vector<MicroRow>& rows, const char* name, F) {
  rows.push_back(row_of_one(name, Exact<F>()));
}

// Adds the row of a formula for floats, for pairs, and for vectors where the set has these.
template <typename F>
void add_formula(std::vector<MicroRow>& rows, const char* name, F f) {
  if constexpr (vec::kHasVectorFormulas) {
    rows.push_back(row_of_formula(name, f));
  } else {
    rows.push_back(row_of_pairs(name, f));
  }
}

// Adds rows for floats and integers with one formula.
template <typename F>
void add_unary_number(std::vector<MicroRow>& rows, const char* name, F f) {
  rows.push_back(row_of_one(name, f));
  rows.push_back({name, kI32, kI32, map1<int32_t, int32_t, F>});
  rows.push_back({name, kI64, kI64, map1<int64_t, int64_t, F>});
}
template <typename F>
void add_exact_number(std::vector<MicroRow>& rows, const char* name, F) {
  add_unary_number(rows, name, Exact<F>());
}

template <typename F>
void add_integer_identity(std::vector<MicroRow>& rows, const char* name, F f) {
  add_exact_float(rows, name, f);
  auto same = [](auto x) { return x; };
  rows.push_back({name, kI32, kI32, map1<int32_t, int32_t, decltype(same)>});
  rows.push_back({name, kI64, kI64, map1<int64_t, int64_t, decltype(same)>});
}

using Immediates = std::vector<double> (*)(const MicroQuery&);

template <typename F>
void add_with_numbers(std::vector<MicroRow>& rows, const char* name, F, Immediates immediates) {
  rows.push_back({.op = name,
                  .source = kF32,
                  .result = kF32,
                  .fn = map1_imm<F>,
                  .immediates = immediates,
                  .held_fn = map_held_imm<F>,
                  .random_fn = map_random_imm<F>});
}

void add_where(std::vector<MicroRow>& rows, bool (*serves)(const MicroQuery&), MicroRow row) {
  row.serves = serves;
  rows.push_back(row);
}

double number(const MicroQuery& q, const char* name) { return std::get<double>(q.attr(name)); }
bool is_tanh(const MicroQuery& q) { return std::get<std::string>(q.attr("approximate")) == "tanh"; }
bool is_erf(const MicroQuery& q) { return !is_tanh(q); }

void add_activations(std::vector<MicroRow>& rows) {
  rows.push_back(row_of_pairs("sigmoid", [](auto x) { return vec::sigmoid(x); }));
  rows.push_back(row_of_pairs("silu", [](auto x) { return vec::silu(x); }));
  add_unary_float(rows, "softplus", [](float x) { return vec::softplus(x); });
  auto gelu_tanh = [](auto x) { return vec::gelu_tanh(x); };
  auto gelu_erf = [](auto x) { return vec::gelu_erf(x); };
  add_where(rows, is_tanh, row_of_pairs("gelu", gelu_tanh));
  add_where(rows, is_erf, row_of_pairs("gelu", gelu_erf));
  auto tanh_grad = [](auto x, auto dy) { return vec::gelu_tanh_grad(x, dy); };
  auto erf_grad = [](auto x, auto dy) { return vec::gelu_erf_grad(x, dy); };
  add_where(rows, is_tanh, row_of_two_pairs("gelu_grad", tanh_grad));
  add_where(rows, is_erf, row_of_two_pairs("gelu_grad", erf_grad));
  auto leaky = [](float x, float slope, float, float) { return x > 0.0f ? x : x * slope; };
  add_with_numbers(rows, "leaky_relu", leaky,
                   [](const MicroQuery& q) { return std::vector{number(q, "slope"), 0.0, 0.0}; });
  auto elu = [](float x, float alpha, float scale, float input_scale) {
    const float e = x * input_scale;
    // exp(e) - 1 loses digits near zero, so the cubic replaces it there.
    const float small = vec::fma(e * e, vec::fma(e, vec::fma(e, 1.0f / 24, 1.0f / 6), 0.5f), e);
    const float grown = vec::abs(e) < 0.03f ? small : vec::exp(e) - 1.0f;
    return x > 0.0f ? x * scale : scale * alpha * grown;
  };
  add_with_numbers(rows, "elu", elu, [](const MicroQuery& q) {
    return std::vector{number(q, "alpha"), number(q, "scale"), number(q, "input_scale")};
  });
}

void add_clamp(std::vector<MicroRow>& rows) {
  auto numbers = [](const MicroQuery& q) {
    return std::vector{number(q, "low"), number(q, "high"), 0.0};
  };
  auto clamp = [](float x, float low, float high, float) {
    x = x < low ? low : x;
    return x > high ? high : x;
  };
  add_with_numbers(rows, "clamp", clamp, numbers);
  auto whole = []<typename T>(const MicroArgs& a, int64_t n, T) {
    const T* x = a.in<T>(0);
    T* y = a.out<T>();
    using Limits = std::numeric_limits<T>;
    auto bound = [](double v) {
      if (v <= static_cast<double>(Limits::min())) return Limits::min();
      return v >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<T>(v);
    };
    const T low = bound(a.immediates[0]), high = bound(a.immediates[1]);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T v = x[i] < low ? low : x[i];
      y[i] = v > high ? high : v;
    }
  };
  static constexpr auto kWhole = decltype(whole)();
  rows.push_back({"clamp", kI32, kI32,
                  [](const MicroArgs& a, int64_t n) { kWhole(a, n, int32_t{}); }, numbers});
  rows.push_back({"clamp", kI64, kI64,
                  [](const MicroArgs& a, int64_t n) { kWhole(a, n, int64_t{}); }, numbers});
}

void add_predicates(std::vector<MicroRow>& rows) {
  auto is_nan = [](float x) { return x != x; };
  auto is_inf = [](float x) { return vec::abs(x) == INFINITY; };
  auto is_zero = [](auto x) { return x == 0; };
  rows.push_back(row_of_one<float, int32_t>("isnan", is_nan));
  rows.push_back(row_of_one<float, int32_t>("isinf", is_inf));
  rows.push_back(row_of_one<float, int32_t>("logical_not", is_zero));
  rows.push_back(row_of_one<int32_t>("logical_not", is_zero));
  rows.back().held_fn = map_bools<1, decltype(is_zero)>;
  rows.push_back({"logical_not", kI64, kI32, map1<int64_t, int32_t, decltype(is_zero)>});
  auto of_bool = [](const MicroQuery& q) { return q.operands[0] == ir::DType::kBool; };
  auto of_bits = [](const MicroQuery& q) { return q.operands[0] != ir::DType::kBool; };
  auto invert = [](auto x) { return ~x; };
  add_where(rows, of_bool, row_of_one<int32_t>("bitwise_not", is_zero));
  rows.back().held_fn = map_bools<1, decltype(is_zero)>;
  rows.push_back(
      {"bitwise_not", kI32, kI32, map1<int32_t, int32_t, decltype(invert)>, nullptr, of_bits});
  rows.push_back({"bitwise_not", kI64, kI64, map1<int64_t, int64_t, decltype(invert)>});
}

}  // namespace

void add_unary_rows(std::vector<MicroRow>& rows) {
  add_exact_number(rows, "neg", [](auto x) { return -Wrapping<decltype(x)>(x); });
  add_unary_number(rows, "square", [](auto x) {
    const Wrapping<decltype(x)> w(x);
    return w * w;
  });
  add_exact_number(rows, "relu", [](auto x) { return x < 0 ? decltype(x)(0) : x; });
  add_exact_number(rows, "sign", [](auto x) {
    using T = decltype(x);
    return static_cast<T>(T(x > 0) - T(x < 0));
  });
  add_exact_number(rows, "identity", [](auto x) { return x; });
  add_exact_number(rows, "detach", [](auto x) { return x; });
  add_exact_float(rows, "abs", [](float x) { return vec::abs(x); });
  auto absolute = [](auto x) {
    const Wrapping<decltype(x)> w(x);
    return x < 0 ? -w : w;
  };
  rows.push_back({"abs", kI32, kI32, map1<int32_t, int32_t, decltype(absolute)>});
  rows.push_back({"abs", kI64, kI64, map1<int64_t, int64_t, decltype(absolute)>});
  add_integer_identity(rows, "ceil", [](auto x) { return std::ceil(x); });
  add_integer_identity(rows, "floor", [](auto x) { return std::floor(x); });
  add_integer_identity(rows, "trunc", [](auto x) { return std::trunc(x); });
  add_integer_identity(rows, "round", [](auto x) { return __builtin_rintf(x); });
  add_formula(rows, "exp", [](auto x) { return vec::exp(x); });
  rows.push_back(row_of_formula("log", [](auto x) { return vec::log(x); }));
  rows.push_back(row_of_formula("sqrt", [](auto x) { return vec::sqrt(x); }));
  add_unary_float(rows, "rsqrt", [](float x) { return 1.0f / std::sqrt(x); });
  add_unary_float(rows, "reciprocal", [](float x) { return 1.0f / x; });
  add_formula(rows, "tanh", [](auto x) { return vec::tanh(x); });
  rows.push_back(row_of_pairs("erf", [](auto x) { return vec::erf(x); }));
  add_activations(rows);
  add_clamp(rows);
  add_predicates(rows);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
