// Kernels of element-wise ops: a formula on doubles, and one on integers where the op has them.
#include <algorithm>
#include <cmath>

#include "reference/kernels.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::reference {
namespace {

using FloatFn = double (*)(double);
using IntFn = int64_t (*)(int64_t);
using FloatFn2 = double (*)(double, double);
using IntFn2 = int64_t (*)(int64_t, int64_t);

double erfinv(double y) {
  if (std::isnan(y) || std::fabs(y) > 1) return NAN;
  if (std::fabs(y) == 1) return std::copysign(INFINITY, y);
  // Winitzki's estimate is followed by Newton steps.
  const double l = std::log1p(-y * y), t = 2 / (M_PI * 0.147) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - l / 0.147) - t), y);
  for (int i = 0; i < 4; ++i) x -= (std::erf(x) - y) / (M_2_SQRTPI * std::exp(-x * x));
  return x;
}

double lgamma_of(double x) {
  int sign;  // std::lgamma keeps it in a global variable
  return ::lgamma_r(x, &sign);
}

double digamma(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0) {
    if (x == std::floor(x)) return NAN;
    return digamma(1 - x) - M_PI / std::tan(M_PI * x);
  }
  double shift = 0;
  for (; x < 10; x += 1) shift -= 1 / x;
  const double s = 1 / (x * x);  // the asymptotic series
  return shift + std::log(x) - 0.5 / x -
         s * (1. / 12 - s * (1. / 120 - s * (1. / 252 - s * (1. / 240 - s / 132))));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double maximum(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
double minimum(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return -a;  // the quotient of the least integer overflows
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
int64_t power(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1, base = static_cast<uint64_t>(a);
  for (; b; b >>= 1, base *= base) {
    if (b & 1) result *= base;
  }
  return static_cast<int64_t>(result);
}

struct UnaryRow {
  const char* name;
  FloatFn on_floats;
  IntFn on_integers;  // nullptr: the op is not defined on integers
  bool exact;
};
constexpr IntFn kSame = [](int64_t x) { return x; };

constexpr UnaryRow kUnary[] = {
    {"neg", [](double x) { return -x; }, [](int64_t x) { return -x; }, true},
    {"abs", [](double x) { return std::fabs(x); }, [](int64_t x) { return x < 0 ? -x : x; }, true},
    {"square", [](double x) { return x * x; }, [](int64_t x) { return x * x; }, true},
    {"sign", sign, [](int64_t x) { return int64_t{x > 0} - int64_t{x < 0}; }, true},
    {"ceil", [](double x) { return std::ceil(x); }, kSame, true},
    {"floor", [](double x) { return std::floor(x); }, kSame, true},
    {"round", [](double x) { return std::nearbyint(x); }, kSame, true},
    {"trunc", [](double x) { return std::trunc(x); }, kSame, true},
    {"relu", [](double x) { return x < 0 ? 0 : x; },
     [](int64_t x) { return std::max<int64_t>(x, 0); }, true},
    {"reciprocal", [](double x) { return 1 / x; }, nullptr, true},
    {"sqrt", [](double x) { return std::sqrt(x); }, nullptr, true},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, nullptr, false},
    {"exp", [](double x) { return std::exp(x); }, nullptr, false},
    {"expm1", [](double x) { return std::expm1(x); }, nullptr, false},
    {"log", [](double x) { return std::log(x); }, nullptr, false},
    {"log1p", [](double x) { return std::log1p(x); }, nullptr, false},
    {"log2", [](double x) { return std::log2(x); }, nullptr, false},
    {"log10", [](double x) { return std::log10(x); }, nullptr, false},
    {"sin", [](double x) { return std::sin(x); }, nullptr, false},
    {"cos", [](double x) { return std::cos(x); }, nullptr, false},
    {"tan", [](double x) { return std::tan(x); }, nullptr, false},
    {"asin", [](double x) { return std::asin(x); }, nullptr, false},
    {"acos", [](double x) { return std::acos(x); }, nullptr, false},
    {"atan", [](double x) { return std::atan(x); }, nullptr, false},
    {"sinh", [](double x) { return std::sinh(x); }, nullptr, false},
    {"cosh", [](double x) { return std::cosh(x); }, nullptr, false},
    {"tanh", [](double x) { return std::tanh(x); }, nullptr, false},
    {"asinh", [](double x) { return std::asinh(x); }, nullptr, false},
    {"acosh", [](double x) { return std::acosh(x); }, nullptr, false},
    {"atanh", [](double x) { return std::atanh(x); }, nullptr, false},
    {"sigmoid", sigmoid, nullptr, false},
    {"silu", [](double x) { return x * sigmoid(x); }, nullptr, false},
    {"softplus", softplus, nullptr, false},
    {"erf", [](double x) { return std::erf(x); }, nullptr, false},
    {"erfinv", erfinv, nullptr, false},
    {"lgamma", lgamma_of, nullptr, false},
    {"digamma", digamma, nullptr, false},
};

struct BinaryRow {
  const char* name;
  FloatFn2 on_floats;
  IntFn2 on_integers;
  bool exact;
};

constexpr BinaryRow kBinary[] = {
    {"add", [](double a, double b) { return a + b; }, [](int64_t a, int64_t b) { return a + b; },
     true},
    {"sub", [](double a, double b) { return a - b; }, [](int64_t a, int64_t b) { return a - b; },
     true},
    {"mul", [](double a, double b) { return a * b; }, [](int64_t a, int64_t b) { return a * b; },
     true},
    {"div", [](double a, double b) { return a / b; }, nullptr, true},
    {"pow", [](double a, double b) { return std::pow(a, b); }, power, false},
    {"maximum", maximum, [](int64_t a, int64_t b) { return std::max(a, b); }, true},
    {"minimum", minimum, [](int64_t a, int64_t b) { return std::min(a, b); }, true},
    {"atan2", [](double a, double b) { return std::atan2(a, b); }, nullptr, false},
    {"fmod", [](double a, double b) { return std::fmod(a, b); },
     [](int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }, false},
    {"remainder", remainder,
     [](int64_t a, int64_t b) { return b == -1 ? 0 : a - floor_div(a, b) * b; }, false},
    {"floor_div", [](double a, double b) { return std::floor(a / b); }, floor_div, false},
    {"bitwise_and", nullptr, [](int64_t a, int64_t b) { return a & b; }, true},
    {"bitwise_or", nullptr, [](int64_t a, int64_t b) { return a | b; }, true},
    {"bitwise_xor", nullptr, [](int64_t a, int64_t b) { return a ^ b; }, true},
    {"shift_left", nullptr,
     [](int64_t a, int64_t b) {
       return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
     },
     true},
    {"shift_right", nullptr, [](int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); },
     true},
    {"eq", [](double a, double b) { return double(a == b); },
     [](int64_t a, int64_t b) { return int64_t{a == b}; }, true},
    {"ne", [](double a, double b) { return double(a != b); },
     [](int64_t a, int64_t b) { return int64_t{a != b}; }, true},
    {"lt", [](double a, double b) { return double(a < b); },
     [](int64_t a, int64_t b) { return int64_t{a < b}; }, true},
    {"le", [](double a, double b) { return double(a <= b); },
     [](int64_t a, int64_t b) { return int64_t{a <= b}; }, true},
    {"gt", [](double a, double b) { return double(a > b); },
     [](int64_t a, int64_t b) { return int64_t{a > b}; }, true},
    {"ge", [](double a, double b) { return double(a >= b); },
     [](int64_t a, int64_t b) { return int64_t{a >= b}; }, true},
    {"logical_and", [](double a, double b) { return double(a != 0 && b != 0); },
     [](int64_t a, int64_t b) { return int64_t{a && b}; }, true},
    {"logical_or", [](double a, double b) { return double(a != 0 || b != 0); },
     [](int64_t a, int64_t b) { return int64_t{a || b}; }, true},
    {"logical_xor", [](double a, double b) { return double((a != 0) != (b != 0)); },
     [](int64_t a, int64_t b) { return int64_t{!a != !b}; }, true},
};

template <typename Rows>
const auto& row_of(const Rows& rows, std::string_view name) {
  return *std::find_if(std::begin(rows), std::end(rows),
                       [&](const auto& row) { return row.name == name; });
}

bool on_integers(const Args& a, size_t operand) { return !ir::is_float(a.type(operand).dtype); }

void unary(const KernelCall& call) {
  const Args a(call);
  const UnaryRow& row = row_of(kUnary, a.op());
  if (on_integers(a, 0)) {
    Integers x = a.ints(0);
    for (int64_t& v : x) v = row.on_integers(v);
    a.out(0, x);
  } else {
    Doubles x = a.in(0);
    for (double& v : x) v = row.on_floats(v);
    a.out(0, x);
  }
}

void binary(const KernelCall& call) {
  const Args a(call);
  const BinaryRow& row = row_of(kBinary, a.op());
  const Shape& shape = a.result().shape;
  if (on_integers(a, 0)) {
    Integers x = a.ints(0, shape);
    const Integers y = a.ints(1, shape);
    for (size_t i = 0; i < x.size(); ++i) x[i] = row.on_integers(x[i], y[i]);
    a.out(0, x);
  } else {
    if (!row.on_floats) {
      throw support::UserError(support::str("[", a.op(), "] takes integers, not ", a.type(0), "."));
    }
    Doubles x = a.in(0, shape);
    const Doubles y = a.in(1, shape);
    for (size_t i = 0; i < x.size(); ++i) x[i] = row.on_floats(x[i], y[i]);
    a.out(0, x);
  }
}

// Returns the type of two real numbers in a separate last axis.
ir::Type in_parts(ir::Type type) {
  type.dtype = type.dtype == DType::kC128 ? DType::kF64 : DType::kF32;
  type.shape.push_back(2);
  return type;
}

// Adds operands. Gradients are added up, complex ones too.
void add(const KernelCall& call) {
  if (!ir::is_complex(call.outputs[0].dtype)) return binary(call);
  const std::vector<std::optional<ir::Type>> inputs{in_parts(*call.inputs[0]),
                                                    in_parts(*call.inputs[1])};
  const std::vector<ir::Type> outputs{in_parts(call.outputs[0])};
  binary({call.op, call.attrs, inputs, outputs, call.buffers});
}

// Makes a formula of the attributes and one operand.
template <typename Make>
void parametric(const KernelCall& call, Make make) {
  const Args a(call);
  const auto formula = make(a);
  Doubles x = a.in(0);
  for (double& v : x) v = formula(v);
  a.out(0, x);
}

constexpr double kGeluInner = 0.044715;
const double kGeluOuter = std::sqrt(2 / M_PI);

void gelu(const KernelCall& call) {
  parametric(call, [](const Args& a) {
    return [tanh = a.text("approximate") == "tanh"](double x) {
      if (!tanh) return 0.5 * x * std::erfc(-x * M_SQRT1_2);
      return 0.5 * x * (1 + std::tanh(kGeluOuter * (x + kGeluInner * x * x * x)));
    };
  });
}

void gelu_grad(const KernelCall& call) {
  const Args a(call);
  const bool tanh = a.text("approximate") == "tanh";
  Doubles x = a.in(0, a.result().shape);
  const Doubles dy = a.in(1, a.result().shape);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    double slope;
    if (tanh) {
      const double t = std::tanh(kGeluOuter * (v + kGeluInner * v * v * v));
      slope = 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * kGeluOuter * (1 + 3 * kGeluInner * v * v);
    } else {
      slope = 0.5 * std::erfc(-v * M_SQRT1_2) +
              v * std::exp(-0.5 * v * v) * 0.39894228040143267794;  // 1/sqrt(2 pi)
    }
    x[i] = slope * dy[i];
  }
  a.out(0, x);
}

void pow2_scale(const KernelCall& call) {
  const Args a(call);
  const int64_t exponent = a.ints(1)[0];
  if (exponent < -32 || exponent >= 32) {
    throw support::UserError(
        support::str("[pow2_scale] log2_scale is ", exponent, " but must be in [-32, 32)."));
  }
  Doubles x = a.in(0);
  for (double& v : x) v = std::ldexp(v, static_cast<int>(exponent));
  a.out(0, x);
}

void leaky_relu(const KernelCall& call) {
  parametric(call, [](const Args& a) {
    return [slope = a.number("slope")](double x) { return x > 0 ? x : slope * x; };
  });
}

void elu(const KernelCall& call) {
  parametric(call, [](const Args& a) {
    return [outer = a.number("scale"), alpha = a.number("alpha"), inner = a.number("input_scale")](
               double x) { return x > 0 ? outer * x : outer * alpha * std::expm1(inner * x); };
  });
}

void clamp(const KernelCall& call) {
  const Args a(call);
  const double low = a.number("low"), high = a.number("high");
  if (on_integers(a, 0)) {
    Integers x = a.ints(0);
    for (int64_t& v : x) {
      if (static_cast<double>(v) < low) v = static_cast<int64_t>(low);
      if (static_cast<double>(v) > high) v = static_cast<int64_t>(high);
    }
    return a.out(0, x);
  }
  Doubles x = a.in(0);
  for (double& v : x) v = std::isnan(v) ? v : std::min(std::max(v, low), high);
  a.out(0, x);
}

void bitwise_not(const KernelCall& call) {
  const Args a(call);
  Integers x = a.ints(0);
  const bool truth = a.type(0).dtype == DType::kBool;
  for (int64_t& v : x) v = truth ? !v : ~v;
  a.out(0, x);
}

bool is_zero(double x) { return x == 0; }
bool is_nan(double x) { return std::isnan(x); }
bool is_infinite(double x) { return std::isinf(x); }

template <bool (*test)(double)>
void predicate(const KernelCall& call) {
  parametric(call, [](const Args&) { return [](double x) { return double(test(x)); }; });
}

void select(const KernelCall& call) {
  const Args a(call);
  const Shape& shape = a.result().shape;
  const Integers condition = a.ints(0, shape);
  auto choose = [&](auto yes, const auto& no) {
    for (size_t i = 0; i < yes.size(); ++i) yes[i] = condition[i] ? yes[i] : no[i];
    a.out(0, yes);
  };
  if (on_integers(a, 1)) return choose(a.ints(1, shape), a.ints(2, shape));
  choose(a.in(1, shape), a.in(2, shape));
}

void scale_shift(const KernelCall& call) {
  const Args a(call);
  Doubles x = a.in(0);
  const Doubles scale = a.in(1, a.result().shape), shift = a.in(2, a.result().shape);
  for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] * scale[i] + shift[i];
  a.out(0, x);
}

void cast(const KernelCall& call) {
  const Args a(call);
  if (on_integers(a, 0)) {
    a.out(0, a.ints(0));
  } else {
    a.out(0, a.in(0));
  }
}

void copy(const KernelCall& call) {
  const Args a(call);
  std::memmove(a.result_data(), a.data(0), static_cast<size_t>(a.result().bytes()));
}

}  // namespace

void add_elementwise_kernels(Table& table) {
  for (const UnaryRow& row : kUnary) table[row.name] = {unary, row.exact};
  for (const BinaryRow& row : kBinary) table[row.name] = {binary, row.exact};
  table["add"] = {add, true};
  table["gelu"] = {gelu};
  table["gelu_grad"] = {gelu_grad};
  table["leaky_relu"] = {leaky_relu};
  table["pow2_scale"] = {pow2_scale};
  table["elu"] = {elu};
  table["clamp"] = {clamp, true};
  table["bitwise_not"] = {bitwise_not, true};
  table["logical_not"] = {predicate<is_zero>, true};
  table["isnan"] = {predicate<is_nan>, true};
  table["isinf"] = {predicate<is_infinite>, true};
  table["scale_shift"] = {scale_shift};
  table["select"] = {select, true};
  table["cast"] = {cast, true};
  table["identity"] = {copy, true};
  table["detach"] = {copy, true};
  table["with_history"] = {copy, true};
  table["ipu_copy"] = {copy, true};
}

}  // namespace poptorch::reference
