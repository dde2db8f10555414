// Kernels of losses over classes.
#include <cmath>

#include "reference/kernels.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::reference {
namespace {

// The operands are scores [outer, classes, inner], targets [outer, inner] and the class weights.
struct Classes {
  AxisView view;
  Integers target;
  Doubles weight;
  double smoothing = 0;
  double total = 0;  // the sum of the weights of the targets that count

  // `smooths`: the loss smooths labels.
  Classes(const Args& a, bool smooths)
      : view(a.shape(0), a.shape(0).size() == 1 ? 0 : 1),
        target(a.ints(1)),
        weight(a.has(2) ? a.in(2) : Doubles(static_cast<size_t>(view.size), 1.0)) {
    if (smooths) smoothing = a.number("label_smoothing");
    const int64_t ignored = a.integer("ignore_index");
    for (int64_t& t : target) {
      if (t == ignored) {
        t = -1;
      } else if (t < 0 || t >= view.size) {
        throw support::UserError(support::str("[", a.op(), "] target ", t, " is not in [0, ",
                                              view.size,
                                              "). Correct the labels, or set "
                                              "ignore_index."));
      } else {
        total += weight[t];
      }
    }
  }

  // Calls visit(place among the targets, index of the first class's score, target) for those that
  // count.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t p = 0; p < target.size(); ++p) {
      const auto place = static_cast<int64_t>(p);
      if (target[p] >= 0) visit(p, view.at(place / view.inner, 0, place % view.inner), target[p]);
    }
  }
  // Returns how much class k contributes to the loss of a place whose target is t.
  double share(int64_t t, int64_t k) const {
    const double smooth = smoothing / static_cast<double>(view.size);
    return ((k == t ? 1 - smoothing : 0) + smooth) * weight[k];
  }
};

void write_loss(const Args& a, const Classes& c, const Doubles& log_probabilities) {
  Doubles losses(c.target.size(), 0.0);
  double sum = 0;
  c.for_each([&](size_t place, int64_t first, int64_t t) {
    double loss = 0;
    for (int64_t k = c.smoothing > 0 ? 0 : t; k < (c.smoothing > 0 ? c.view.size : t + 1); ++k) {
      loss -= c.share(t, k) * log_probabilities[first + k * c.view.inner];
    }
    losses[place] = loss;
    sum += loss;
  });
  const std::string& reduction = a.text("reduction");
  if (reduction == "none") return a.out(0, losses);
  a.out(0, Doubles{reduction == "mean" ? sum / c.total : sum});
}

void nll_loss(const KernelCall& call) {
  const Args a(call);
  write_loss(a, Classes(a, false), a.in(0));
}

void softmax_cross_entropy(const KernelCall& call) {
  const Args a(call);
  Doubles x = a.in(0);
  const AxisView view(a.shape(0), a.shape(0).size() == 1 ? 0 : 1);
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t in = 0; in < view.inner; ++in) {
      double greatest = -INFINITY, sum = 0;
      for (int64_t k = 0; k < view.size; ++k) greatest = std::max(greatest, x[view.at(o, k, in)]);
      for (int64_t k = 0; k < view.size; ++k) sum += std::exp(x[view.at(o, k, in)] - greatest);
      for (int64_t k = 0; k < view.size; ++k) x[view.at(o, k, in)] -= greatest + std::log(sum);
    }
  }
  write_loss(a, Classes(a, true), x);
  a.out(1, x);
}

// Computes d loss / d log-probabilities, or through log_softmax to the logits.
template <bool through_softmax>
void class_gradient(const KernelCall& call) {
  const Args a(call);
  const Classes c(a, through_softmax);
  const Doubles y = a.in(0), dloss = a.in(3);
  const double scale = a.text("reduction") == "mean" ? 1 / c.total : 1;
  Doubles dx(y.size(), 0.0);
  c.for_each([&](size_t place, int64_t first, int64_t t) {
    const double dy = scale * dloss[dloss.size() == 1 ? 0 : place];
    double sum = 0;
    for (int64_t k = 0; k < c.view.size; ++k) sum += c.share(t, k);
    for (int64_t k = 0; k < c.view.size; ++k) {
      const auto at = static_cast<size_t>(first + k * c.view.inner);
      dx[at] = dy * ((through_softmax ? std::exp(y[at]) * sum : 0) - c.share(t, k));
    }
  });
  a.out(0, dx);
}

void identity_loss(const KernelCall& call) {
  const Args a(call);
  const Doubles x = a.in(0);
  const std::string& reduction = a.text("reduction");
  if (reduction == "none") return a.out(0, x);
  double sum = 0;
  for (double v : x) sum += v;
  a.out(0, Doubles{reduction == "mean" ? sum / static_cast<double>(x.size()) : sum});
}

}  // namespace

void add_loss_kernels(Table& table) {
  table["nll_loss"] = {nll_loss};
  table["softmax_cross_entropy"] = {softmax_cross_entropy};
  table["nll_loss_grad"] = {class_gradient<false>};
  table["softmax_cross_entropy_grad"] = {class_gradient<true>};
  table["identity_loss"] = {identity_loss};
}

}  // namespace poptorch::reference
