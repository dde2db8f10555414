// Micro-ops of two operands, select, and scale_shift.
#include "emulator/kernels/sets/map_rows.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using enum RegisterClass;

template <typename F>
void add_float(std::vector<MicroRow>& rows, const char* name, F f) {
  rows.push_back(row_of_two(name, f));
}
template <typename F>
void add_whole(std::vector<MicroRow>& rows, const char* name, F) {
  rows.push_back({name, kI32, kI32, map2<int32_t, int32_t, F>});
  rows.push_back({name, kI64, kI64, map2<int64_t, int64_t, F>});
}
template <typename F>
void add_bitwise(std::vector<MicroRow>& rows, const char* name, F) {
  rows.push_back(row_of_two<int32_t>(name, F()));
  rows.back().held_fn = map_bools<2, F>;
  rows.push_back({name, kI64, kI64, map2<int64_t, int64_t, F>});
}
template <typename F>
void add_number(std::vector<MicroRow>& rows, const char* name, F f) {
  add_float(rows, name, f);
  add_whole(rows, name, f);
}
template <typename F>
void add_exact(std::vector<MicroRow>& rows, const char* name, F) {
  add_number(rows, name, Exact<F>());
}
template <typename F>
void add_truth(std::vector<MicroRow>& rows, const char* name, F f) {
  rows.push_back(row_of_two<float, int32_t>(name, f));
  rows.push_back(row_of_two<int32_t>(name, f));
  rows.back().held_fn = map_bools<2, F>;
  rows.push_back({name, kI64, kI32, map2<int64_t, int32_t, F>});
}

template <typename T>
void select(const MicroArgs& a, int64_t n) {
  const int32_t* condition = a.in<int32_t>(0);
  const T *x = a.in<T>(1), *z = a.in<T>(2);
  T* y = a.out<T>();
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = condition[i] != 0 ? x[i] : z[i];
}

// The condition is an integer, in the bits of a float.
struct Select {
  float operator()(float condition, float x, float z) const {
    const uint32_t chosen = vec::bits(condition) != 0 ? ~uint32_t{0} : 0;
    return vec::bits((vec::bits(x) & chosen) | (vec::bits(z) & ~chosen));
  }
};

// Chooses elements of one form, or the only element of a source. T is an integer: the compiler
// makes vectors of masks, where it would not make them of choices.
template <typename T>
void select_stored(const MicroArgs& a, int64_t n) {
  const HeldAs& held = *a.held;
  const uint8_t* condition = a.in<uint8_t>(0);
  T ones[2] = {};
  for (int k = 0; k < 2; ++k) {
    if (held.sources[k + 1] == Held::kOne) from_words(a.in<float>(k + 1), held.result, ones, k, 1);
  }
  T* y = a.out<T>();
  auto choose = [&](auto x, auto z) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T chosen = condition[i] != 0 ? static_cast<T>(~T{0}) : T{0};
      y[i] = (x(i) & chosen) | (z(i) & static_cast<T>(~chosen));
    }
  };
  const T *x = a.in<T>(1), *z = a.in<T>(2), one_x = ones[0], one_z = ones[1];
  auto from_x = [x](int64_t i) { return x[i]; };
  auto from_z = [z](int64_t i) { return z[i]; };
  if (held.sources[1] == Held::kOne) {
    choose([one_x](int64_t) { return one_x; }, from_z);
  } else if (held.sources[2] == Held::kOne) {
    choose(from_x, [one_z](int64_t) { return one_z; });
  } else {
    choose(from_x, from_z);
  }
}
void select_held(const MicroArgs& a, int64_t n) {
  const Held form = a.held->result, *sources = a.held->sources;
  auto fits = [form](Held source) { return source == form || source == Held::kOne; };
  const bool ones = sources[1] == Held::kOne && sources[2] == Held::kOne;
  if (ones || sources[0] != Held::kBool || !fits(sources[1]) || !fits(sources[2])) {
    return map_held_of<3, float, float, Select>(a, n);
  }
  return form == Held::kWord ? select_stored<uint32_t>(a, n) : select_stored<uint16_t>(a, n);
}

struct ScaleShift {
  float operator()(float x, float scale, float shift) const { return vec::fma(x, scale, shift); }
};

void scale_shift(const MicroArgs& a, int64_t n) {
  const float *x = a.in<float>(0), *scale = a.in<float>(1), *shift = a.in<float>(2);
  float* y = a.out<float>();
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = ScaleShift()(x[i], scale[i], shift[i]);
}

template <typename T>
T whole_power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  Wrapping<T> result = 1, factor = base;
  for (; exponent != 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return static_cast<T>(result);
}

// Truncates x / z, for z other than 0 and -1. The quotient of doubles of 32 bits is on the right
// side of every integer, and vectors have no division of integers.
template <typename T>
T truncated_quotient(T x, T z) {
  if constexpr (sizeof(T) > 4) return x / z;
  return static_cast<T>(static_cast<double>(x) / static_cast<double>(z));
}
// A division of whole numbers that cannot trap: where z is 0 or -1, it divides by 1.
template <typename T>
struct Division {
  bool trivial;
  T quotient, rest;

  Division(T x, T z) : trivial(z == 0 || z == -1) {
    const T by = trivial ? 1 : z;
    quotient = truncated_quotient(x, by);
    rest = x - quotient * by;
  }
};

void add_divisions(std::vector<MicroRow>& rows) {
  add_float(rows, "div", [](float x, float z) { return x / z; });
  // Division by zero is the user's concern; it must not kill the process.
  add_whole(rows, "floor_div", [](auto x, auto z) {
    using T = decltype(x);
    const Division<T> d(x, z);
    const T below = d.rest != 0 && (x < 0) != (z < 0) ? d.quotient - 1 : d.quotient;
    const T negative = static_cast<T>(0 - Wrapping<T>(x));
    return z == 0 ? T(0) : z == -1 ? negative : below;
  });
  add_whole(rows, "fmod", [](auto x, auto z) {
    const Division<decltype(x)> d(x, z);
    return d.trivial ? decltype(x)(0) : d.rest;
  });
  add_whole(rows, "remainder", [](auto x, auto z) {
    using T = decltype(x);
    const Division<T> d(x, z);
    const T rest = d.rest != 0 && (d.rest < 0) != (z < 0) ? d.rest + z : d.rest;
    return d.trivial ? T(0) : rest;
  });
}

void add_bits(std::vector<MicroRow>& rows) {
  add_bitwise(rows, "bitwise_and", [](auto x, auto z) { return x & z; });
  add_bitwise(rows, "bitwise_or", [](auto x, auto z) { return x | z; });
  add_bitwise(rows, "bitwise_xor", [](auto x, auto z) { return x ^ z; });
  add_whole(rows, "shift_left", [](auto x, auto z) {
    using T = decltype(x);
    const bool gone = z < 0 || z >= T(8 * sizeof(T));
    return gone ? T(0) : static_cast<T>(Wrapping<T>(x) << z);
  });
  add_whole(rows, "shift_right", [](auto x, auto z) {
    using T = decltype(x);
    const bool gone = z < 0 || z >= T(8 * sizeof(T));
    return static_cast<T>(x >> (gone ? T(8 * sizeof(T) - 1) : z));
  });
}

}  // namespace

void add_binary_rows(std::vector<MicroRow>& rows) {
  auto sum = [](auto x, auto z) {
    using T = decltype(x);
    return static_cast<T>(Wrapping<T>(x) + Wrapping<T>(z));
  };
  auto difference = [](auto x, auto z) {
    using T = decltype(x);
    return static_cast<T>(Wrapping<T>(x) - Wrapping<T>(z));
  };
  auto product = [](auto x, auto z) {
    using T = decltype(x);
    return static_cast<T>(Wrapping<T>(x) * Wrapping<T>(z));
  };
  add_number(rows, "add", sum);
  add_number(rows, "sub", difference);
  add_number(rows, "mul", product);
  add_exact(rows, "maximum", [](auto x, auto z) { return x > z || x != x ? x : z; });
  add_exact(rows, "minimum", [](auto x, auto z) { return x < z || x != x ? x : z; });
  add_whole(rows, "pow", [](auto x, auto z) { return whole_power(x, z); });
  add_divisions(rows);
  add_bits(rows);
  add_truth(rows, "eq", [](auto x, auto z) { return x == z; });
  add_truth(rows, "ne", [](auto x, auto z) { return x != z; });
  add_truth(rows, "lt", [](auto x, auto z) { return x < z; });
  add_truth(rows, "le", [](auto x, auto z) { return x <= z; });
  add_truth(rows, "gt", [](auto x, auto z) { return x > z; });
  add_truth(rows, "ge", [](auto x, auto z) { return x >= z; });
  add_truth(rows, "logical_and", [](auto x, auto z) { return (x != 0) & (z != 0); });
  add_truth(rows, "logical_or", [](auto x, auto z) { return (x != 0) | (z != 0); });
  add_truth(rows, "logical_xor", [](auto x, auto z) { return (x != 0) ^ (z != 0); });
  rows.push_back({.op = "scale_shift",
                  .source = kF32,
                  .result = kF32,
                  .fn = scale_shift,
                  .held_fn = map_held_of<3, float, float, ScaleShift>,
                  .random_fn = map_random_of<3, ScaleShift>});
  rows.push_back({.op = "select",
                  .source = kF32,
                  .result = kF32,
                  .fn = select<float>,
                  .held_fn = select_held});
  rows.push_back({"select", kI32, kI32, select<int32_t>});
  rows.push_back({"select", kI64, kI64, select<int64_t>});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
