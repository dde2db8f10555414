// Micro-ops of mathematical functions. A formula computes most elements; the library computes those
// for which the formula does not hold, one at a time.
#include <cmath>

#include "emulator/kernels/sets/map_rows.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/vector_functions.hpp"
#include "emulator/kernels/simd/wide_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using enum RegisterClass;

// Copies elements, and converts them.
void copy_held(Held from, const void* x, Held to, void* y, int64_t n) {
  const HeldAs held{.sources = {from}, .result = to};
  MicroArgs args;
  args.src[0] = x, args.dst[0] = y, args.held = &held;
  kConversions.copy_held(args, n);
}

// `where(x)` or `where(x, z)` says whether the formula holds.
template <typename... Floats, typename Formula, typename Where, typename Library>
void map_or_call(const MicroArgs& a, int64_t n, Formula formula, Where where, Library library) {
  constexpr int kOperands = sizeof...(Floats);
  constexpr int64_t kBlock = 256;
  const HeldAs& held = *a.held;
  // The results may take the place of an operand, which the library still needs.
  alignas(64) float in[kOperands][kBlock], out[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = n - begin < kBlock ? n - begin : kBlock;
    for (int k = 0; k < kOperands; ++k) {
      const auto* x = a.in<std::byte>(k) + begin * bytes_of(held.sources[k]);
      copy_held(held.sources[k], x, Held::kWord, in[k], count);
    }
    const bool direct = held.result == Held::kWord;
    float* y = direct ? a.out<float>() + begin : out;
    auto at = [&](auto function, int64_t i) {
      if constexpr (kOperands == 1) return function(in[0][i]);
      if constexpr (kOperands == 2) return function(in[0][i], in[1][i]);
    };
    int32_t left = 0;
    for (int64_t i = 0; i < count; ++i) left |= at(where, i) ? 0 : 1;
    for (int64_t i = 0; i < count; ++i) y[i] = at(formula, i);
    for (int64_t i = 0; left != 0 && i < count; ++i) {
      if (!at(where, i)) y[i] = at(library, i);
    }
    if (!direct) {
      auto* to = a.out<std::byte>() + begin * bytes_of(held.result);
      copy_held(Held::kWord, out, held.result, to, count);
    }
  }
}

template <typename Formula, typename Where, typename Library>
void map1_or_call(const MicroArgs& a, int64_t n) {
  map_or_call<float>(a, n, Formula(), Where(), Library());
}
template <typename Formula, typename Where, typename Library>
void map2_or_call(const MicroArgs& a, int64_t n) {
  map_or_call<float, float>(a, n, Formula(), Where(), Library());
}

template <int operands, MicroFn fn>
void add_row(std::vector<MicroRow>& rows, const char* name) {
  rows.push_back({.op = name,
                  .source = kF32,
                  .result = kF32,
                  .fn = fn,
                  .held_fn = fn,
                  .random_fn = round_blocks<operands, fn>});
}
template <typename F>
void add(std::vector<MicroRow>& rows, const char* name, F f) {
  rows.push_back(row_of_one(name, f));
}
template <typename Formula, typename Where, typename Library>
void add(std::vector<MicroRow>& rows, const char* name, Formula, Where, Library) {
  add_row<1, map1_or_call<Formula, Where, Library>>(rows, name);
}
template <typename Formula, typename Where, typename Library>
void add_of_two(std::vector<MicroRow>& rows, const char* name, Formula, Where, Library) {
  add_row<2, map2_or_call<Formula, Where, Library>>(rows, name);
}

float digamma(float x) {
  double v = x, shift = 0;
  if (v == 0) return copysignf(INFINITY, -x);
  if (v < 0) {
    if (v == std::floor(v)) return NAN;
    shift = -M_PI / std::tan(M_PI * v);
    v = 1 - v;
  }
  for (; v < 10; v += 1) shift -= 1 / v;
  const double s = 1 / (v * v);  // the asymptotic series
  const double tail = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240))));
  return static_cast<float>(std::log(v) - 0.5 / v - tail + shift);
}

// Divides as Python does: exact where the rounded quotient would be off by one. m = fmod(x, z).
float floor_quotient(float x, float z, float m) {
  float q = (x - m) / z;
  q = m != 0.0f && (z < 0.0f) != (m < 0.0f) ? q - 1.0f : q;
  const float f = __builtin_floorf(q);
  const float whole = q - f > 0.5f ? f + 1.0f : f;
  return q == 0.0f ? vec::copysign(0.0f, x / z) : whole;
}

// The remainder with the sign of z. m = fmod(x, z).
float remainder_of(float z, float m) { return m != 0.0f && (z < 0.0f) != (m < 0.0f) ? m + z : m; }

void add_angles(std::vector<MicroRow>& rows) {
  auto reducible = [](float x) { return vec::abs(x) <= vec::kMaxReduced; };
  add(
      rows, "sin", [](float x) { return vec::sin_quarter(x, 0); }, reducible,
      [](float x) { return static_cast<float>(std::sin(static_cast<double>(x))); });
  add(
      rows, "cos", [](float x) { return vec::sin_quarter(x, 1); }, reducible,
      [](float x) { return static_cast<float>(std::cos(static_cast<double>(x))); });
  add(
      rows, "tan", [](float x) { return vec::tan(x); }, reducible,
      [](float x) { return static_cast<float>(std::tan(static_cast<double>(x))); });
  add(rows, "asin", [](float x) { return vec::asin(x); });
  add(rows, "acos", [](float x) { return vec::acos(x); });
  rows.push_back(row_of_formula("atan", [](auto x) { return vec::atan(x); }));
  auto angle = [](float y, float x) { return vec::atan2(y, x); };
  rows.push_back(row_of_two("atan2", angle));
}

void add_remainders(std::vector<MicroRow>& rows) {
  auto exact = [](float x, float z) { return wide::fmod_is_exact(x, z); };
  add_of_two(
      rows, "fmod", [](float x, float z) { return wide::fmod(x, z); }, exact,
      [](float x, float z) { return std::fmod(x, z); });
  add_of_two(
      rows, "remainder", [](float x, float z) { return remainder_of(z, wide::fmod(x, z)); }, exact,
      [](float x, float z) { return remainder_of(z, std::fmod(x, z)); });
  add_of_two(
      rows, "floor_div", [](float x, float z) { return floor_quotient(x, z, wide::fmod(x, z)); },
      exact,
      [](float x, float z) { return z == 0 ? x / z : floor_quotient(x, z, std::fmod(x, z)); });
}

}  // namespace

void add_function_rows(std::vector<MicroRow>& rows) {
  add(rows, "expm1", [](float x) { return vec::expm1(x); });
  add(rows, "log1p", [](float x) { return vec::log1p(x); });
  rows.push_back(row_of_formula("log2", [](auto x) { return vec::log2(x); }));
  rows.push_back(row_of_formula("log10", [](auto x) { return vec::log10(x); }));
  add(rows, "sinh", [](float x) { return vec::sinh(x); });
  add(rows, "cosh", [](float x) { return vec::cosh(x); });
  add(rows, "asinh", [](float x) { return vec::asinh(x); });
  add(rows, "acosh", [](float x) { return vec::acosh(x); });
  add(rows, "atanh", [](float x) { return vec::atanh(x); });
  rows.push_back(row_of_formula("erfinv", [](auto x) { return vec::erfinv(x); }));
  add(rows, "digamma", [](float x) { return digamma(x); });
  add(
      rows, "lgamma", [](float x) { return wide::lgamma(x); },
      [](float x) { return vec::both(x > 0.0f, x < 1e30f); },
      [](float x) {
        int sign;
        return static_cast<float>(lgamma_r(static_cast<double>(x), &sign));
      });
  add_of_two(
      rows, "pow", [](float x, float z) { return wide::pow(x, z); },
      [](float x, float z) { return vec::both(vec::abs(x) < INFINITY, vec::abs(z) < INFINITY); },
      [](float x, float z) { return std::pow(x, z); });
  add_angles(rows);
  add_remainders(rows);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
