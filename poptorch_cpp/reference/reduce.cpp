// Kernels of reductions over axes, searches along one, and scans.
#include <cmath>

#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

// Maps every element of operand 0, in row-major order, to the element of the result it goes to.
template <typename Visit>
void for_each_target(const Args& a, Visit visit) {
  const Shape& shape = a.shape(0);
  ir::Ints axes = a.list("axes");
  if (shape.empty()) axes.clear();  // a scalar does not have an axis 0
  Shape kept = shape;
  for (int64_t axis : axes) kept[axis] = 1;
  Shape strides = ir::row_major_strides(kept);
  for (int64_t axis : axes) strides[axis] = 0;
  for_each_offset(shape, strides, visit);
}

template <typename Values, typename Fold>
Values fold(const Args& a, const Values& x, typename Values::value_type start, Fold combine) {
  Values y(static_cast<size_t>(a.result().elements()), start);
  for_each_target(a, [&](int64_t i, int64_t to) {
    auto& value = y[to];
    value = combine(value, x[i]);
  });
  return y;
}

bool on_integers(const Args& a) { return !ir::is_float(a.type(0).dtype); }

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kMultiply = [](auto a, auto b) { return a * b; };
constexpr auto kMax = [](auto a, auto b) { return a != a ? a : b != b ? b : b > a ? b : a; };
constexpr auto kMin = [](auto a, auto b) { return a != a ? a : b != b ? b : b < a ? b : a; };

template <auto combine>
void reduce(const KernelCall& call, double start, int64_t integer_start) {
  const Args a(call);
  if (on_integers(a)) {
    a.out(0, fold(a, a.ints(0), integer_start, combine));
  } else {
    a.out(0, fold(a, a.in(0), start, combine));
  }
}

void sum(const KernelCall& call) { reduce<kAdd>(call, 0, 0); }
void prod(const KernelCall& call) { reduce<kMultiply>(call, 1, 1); }
void max(const KernelCall& call) { reduce<kMax>(call, -INFINITY, INT64_MIN); }
void min(const KernelCall& call) { reduce<kMin>(call, INFINITY, INT64_MAX); }

void mean(const KernelCall& call) {
  const Args a(call);
  Doubles y = fold(a, a.in(0), 0.0, kAdd);
  const double count = static_cast<double>(a.type(0).elements()) / static_cast<double>(y.size());
  for (double& v : y) v /= count;
  a.out(0, y);
}

void logsumexp(const KernelCall& call) {
  const Args a(call);
  const Doubles x = a.in(0), greatest = fold(a, x, -INFINITY, kMax);
  Doubles y(greatest.size(), 0.0);
  for_each_target(a, [&](int64_t i, int64_t to) {
    const double shift = greatest[to];
    y[to] += std::exp(x[i] - (std::isinf(shift) ? 0 : shift));
  });
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = std::log(y[i]) + (std::isinf(greatest[i]) ? 0 : greatest[i]);
  }
  a.out(0, y);
}

template <bool all>
void any_or_all(const KernelCall& call) {
  const Args a(call);
  Integers y(static_cast<size_t>(a.result().elements()), all);
  const Doubles x = a.in(0);
  for_each_target(a, [&](int64_t i, int64_t to) {
    const bool truth = x[i] != 0;
    if (truth != all) y[to] = truth;
  });
  a.out(0, y);
}

template <bool greatest, typename Values>
void search(const Args& a, const Values& x) {
  const AxisView view(a.shape(0), a.integer("axis"));
  Integers y;
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t in = 0; in < view.inner; ++in) {
      int64_t best = 0;
      for (int64_t i = 1; i < view.size; ++i) {
        const auto held = x[view.at(o, best, in)];
        const auto value = x[view.at(o, i, in)];
        if (held != held) break;  // NaN
        if (value != value || (greatest ? value > held : value < held)) best = i;
      }
      y.push_back(best);
    }
  }
  a.out(0, y);
}

template <bool greatest>
void argument(const KernelCall& call) {
  const Args a(call);
  if (on_integers(a)) {
    search<greatest>(a, a.ints(0));
  } else {
    search<greatest>(a, a.in(0));
  }
}

template <bool sums, typename Values>
void scan(const Args& a, Values x) {
  const AxisView view(a.shape(0), a.integer("axis"));
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 1; i < view.size; ++i) {
      for (int64_t in = 0; in < view.inner; ++in) {
        auto& value = x[view.at(o, i, in)];
        const auto before = x[view.at(o, i - 1, in)];
        value = sums ? value + before : value * before;
      }
    }
  }
  a.out(0, x);
}

template <bool sums>
void cumulate(const KernelCall& call) {
  const Args a(call);
  if (on_integers(a)) {
    scan<sums>(a, a.ints(0));
  } else {
    scan<sums>(a, a.in(0));
  }
}

void linear_recurrence(const KernelCall& call) {
  const Args a(call);
  const AxisView view(a.shape(0), a.integer("axis"));
  const auto factors = a.in(0);
  auto y = a.in(1);
  const bool reverse = a.flag("reverse");
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t step = 1; step < view.size; ++step) {
      const int64_t i = reverse ? view.size - 1 - step : step, before = reverse ? i + 1 : i - 1;
      for (int64_t in = 0; in < view.inner; ++in) {
        y[view.at(o, i, in)] += factors[view.at(o, i, in)] * y[view.at(o, before, in)];
      }
    }
  }
  a.out(0, y);
}

}  // namespace

void add_reduce_kernels(Table& table) {
  table["sum"] = {sum};
  table["prod"] = {prod};
  table["mean"] = {mean};
  table["max"] = {max, true};
  table["min"] = {min, true};
  table["logsumexp"] = {logsumexp};
  table["any"] = {any_or_all<false>, true};
  table["all"] = {any_or_all<true>, true};
  table["argmax"] = {argument<true>, true};
  table["argmin"] = {argument<false>, true};
  table["cumsum"] = {cumulate<true>};
  table["cumprod"] = {cumulate<false>};
  table["linear_recurrence"] = {linear_recurrence};
}

}  // namespace poptorch::reference
