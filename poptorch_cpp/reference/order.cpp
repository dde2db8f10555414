// Kernels that order elements along an axis.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

// Sorts stably; NaN counts as the greatest, as in torch.
template <typename T>
bool comes_before(T a, T b, bool descending) {
  if (a != a || b != b) return descending ? a != a && b == b : a == a && b != b;
  return descending ? a > b : a < b;
}

template <typename Values>
void order(const Args& a, const Values& x, bool descending) {
  const AxisView from(a.shape(0), a.integer("axis"));
  const AxisView to(a.result().shape, a.integer("axis"));
  Values values(static_cast<size_t>(a.result().elements()));
  Integers indices(values.size()), rank(static_cast<size_t>(from.size));
  for (int64_t o = 0; o < from.outer; ++o) {
    for (int64_t in = 0; in < from.inner; ++in) {
      auto value = [&](int64_t i) { return x[from.at(o, i, in)]; };
      std::iota(rank.begin(), rank.end(), 0);
      std::stable_sort(rank.begin(), rank.end(), [&](int64_t i, int64_t j) {
        return comes_before(value(i), value(j), descending);
      });
      for (int64_t i = 0; i < to.size; ++i) {
        const auto at = static_cast<size_t>(to.at(o, i, in));
        indices[at] = rank[i];
        values[at] = value(indices[at]);
      }
    }
  }
  a.out(0, values);
  a.out(1, indices);
}

template <bool top>
void run(const KernelCall& call) {
  const Args a(call);
  const bool descending = a.flag(top ? "largest" : "descending");
  if (ir::is_float(a.type(0).dtype)) {
    order(a, a.in(0), descending);
  } else {
    order(a, a.ints(0), descending);
  }
}

}  // namespace

void add_order_kernels(Table& table) {
  table["sort"] = {run<false>, true};
  table["topk"] = {run<true>, true};
}

}  // namespace poptorch::reference
