// Kernels of softmax and its logarithm.
#include <algorithm>
#include <cmath>

#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

// Calls body(values of one line along the axis, by reference to the line's copy) and stores the
// line.
template <typename Body>
void for_each_line(const Args& a, Doubles x, Body body) {
  const AxisView view(a.shape(0), a.integer("axis"));
  Doubles line(static_cast<size_t>(view.size));
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t in = 0; in < view.inner; ++in) {
      auto at = [&](size_t i) {
        return static_cast<size_t>(view.at(o, static_cast<int64_t>(i), in));
      };
      for (size_t i = 0; i < line.size(); ++i) line[i] = x[at(i)];
      body(line, at);
      for (size_t i = 0; i < line.size(); ++i) x[at(i)] = line[i];
    }
  }
  a.out(0, x);
}

template <bool logarithm>
void softmax(const KernelCall& call) {
  const Args a(call);
  for_each_line(a, a.in(0), [&](Doubles& line, auto) {
    const double greatest = *std::max_element(line.begin(), line.end());
    double sum = 0;
    for (double v : line) sum += std::exp(v - greatest);
    for (double& v : line) {
      v = logarithm ? v - greatest - std::log(sum) : std::exp(v - greatest) / sum;
    }
  });
}

template <bool logarithm>
void softmax_grad(const KernelCall& call) {
  const Args a(call);
  const Doubles dy = a.in(1);
  for_each_line(a, a.in(0), [&](Doubles& y, auto at) {
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += logarithm ? dy[at(i)] : y[i] * dy[at(i)];
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = logarithm ? dy[at(i)] - std::exp(y[i]) * sum : y[i] * (dy[at(i)] - sum);
    }
  });
}

}  // namespace

void add_softmax_kernels(Table& table) {
  table["softmax"] = {softmax<false>};
  table["log_softmax"] = {softmax<true>};
  table["softmax_grad"] = {softmax_grad<false>};
  table["log_softmax_grad"] = {softmax_grad<true>};
}

}  // namespace poptorch::reference
