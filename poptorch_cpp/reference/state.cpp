// Kernels that write state in place: assignments and the optimisers' updates. The formulas are in
// ops/update.cpp; everything is computed in double and rounded when stored.
#include <cmath>

#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

void assign(const KernelCall& call) {
  const Args a(call);
  const auto bytes = static_cast<size_t>(a.type(0).bytes()),
             given = static_cast<size_t>(a.type(1).bytes());
  for (size_t at = 0; at < bytes; at += given) std::memmove(a.data(0) + at, a.data(1), given);
}

// Overwrites operand i. Random numbers do not depend on the replica: all keep the same weights.
void store(const Args& a, size_t i, Doubles& values) {
  const DType dtype = a.type(i).dtype;
  if (a.flag("stochastic_rounding") && ir::is_half(dtype)) {
    RandomKey key = a.random();
    key.replica = 0;
    round_at_random(dtype, values, key, i);
  }
  a.write(i, values);
}

void accumulate(const KernelCall& call) {
  const Args a(call);
  const double scale = a.number("scale");
  Doubles dst = a.in(0);
  const Doubles src = a.in(1);
  for (size_t i = 0; i < dst.size(); ++i) dst[i] += scale * src[i];
  store(a, 0, dst);
}

void increment(const KernelCall& call) {
  const Args a(call);
  const double by = a.number("by");
  if (!ir::is_float(a.type(0).dtype)) {
    Integers dst = a.ints(0);
    for (int64_t& v : dst) v += static_cast<int64_t>(by);
    return from_integers(a.type(0).dtype, dst.data(), a.type(0).elements(), a.data(0));
  }
  Doubles dst = a.in(0);
  for (double& v : dst) v += by;
  a.write(0, dst);
}

Doubles gradient(const Args& a, size_t operand) {
  Doubles g = a.in(operand);
  if (a.flag("maximize")) {
    for (double& v : g) v = -v;
  }
  return g;
}

void add_decay(Doubles& g, const Doubles& w, double weight_decay) {
  for (size_t i = 0; i < g.size() && weight_decay != 0; ++i) g[i] += weight_decay * w[i];
}

void sgd_update(const KernelCall& call) {
  const Args a(call);
  Doubles w = a.in(0), g = gradient(a, 1);
  const double lr = a.scalar(2);
  add_decay(g, w, a.scalar(3));
  for (size_t i = 0; i < w.size(); ++i) w[i] -= lr * g[i];
  store(a, 0, w);
}

void sgd_momentum_update(const KernelCall& call) {
  const Args a(call);
  Doubles w = a.in(0), buffer = a.in(1), g = gradient(a, 2);
  const bool first = a.scalar(3) == 1;
  const double lr = a.scalar(4), momentum = a.scalar(6), fresh = 1 - a.scalar(7);
  add_decay(g, w, a.scalar(5));
  for (size_t i = 0; i < w.size(); ++i) {
    buffer[i] = first ? g[i] : momentum * buffer[i] + fresh * g[i];
    w[i] -= lr * (a.flag("nesterov") ? g[i] + momentum * buffer[i] : buffer[i]);
  }
  store(a, 0, w);
  store(a, 1, buffer);
}

// The moments of adam and lamb, and their bias corrections.
struct Moments {
  Doubles m, v;
  double correction1 = 1, correction2 = 1;

  Moments(const Args& a, size_t first, const Doubles& g, double step, double beta1, double beta2)
      : m(a.in(first)), v(a.in(first + 1)) {
    for (size_t i = 0; i < g.size(); ++i) {
      m[i] += (1 - beta1) * (g[i] - m[i]);
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    }
    if (!a.flag("bias_correction")) return;
    correction1 = 1 - std::pow(beta1, step);
    correction2 = 1 - std::pow(beta2, step);
  }
};

void adam_update(const KernelCall& call) {
  const Args a(call);
  Doubles w = a.in(0), g = gradient(a, 3);
  const double lr = a.scalar(5), eps = a.scalar(8), weight_decay = a.scalar(9);
  if (a.flag("decoupled")) {
    for (double& value : w) value *= 1 - lr * weight_decay;
  } else {
    add_decay(g, w, weight_decay);
  }
  Moments moments(a, 1, g, a.scalar(4), a.scalar(6), a.scalar(7));
  const double rate = lr / moments.correction1, root = std::sqrt(moments.correction2);
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] -= rate * moments.m[i] / (std::sqrt(moments.v[i]) / root + eps);
  }
  store(a, 0, w);
  store(a, 1, moments.m);
  store(a, 2, moments.v);
}

// Returns a hyper-parameter as torch multiplies with it: in float32, unless the weight has doubles.
double as_factor(const Args& a, double value) {
  return a.type(0).dtype == DType::kF64 ? value : static_cast<double>(static_cast<float>(value));
}

void rmsprop_update(const KernelCall& call) {
  const Args a(call);
  Doubles w = a.in(0), s = a.in(1), g = gradient(a, 2);
  const double lr = a.scalar(3), alpha = a.scalar(4), eps = a.scalar(5), momentum = a.scalar(7);
  // The factors are float32, as in torch: a difference of 1e-8 shows after a hundred steps.
  const double keep = as_factor(a, alpha), fresh = as_factor(a, 1 - alpha);
  const bool tf = a.flag("tf_variant"), centered = a.has(9), buffered = a.has(8);
  add_decay(g, w, a.scalar(6));
  Doubles buffer = buffered ? a.in(8) : Doubles(w.size(), 0.0);
  Doubles mean = centered ? a.in(9) : Doubles(w.size(), 0.0);
  for (size_t i = 0; i < w.size(); ++i) {
    s[i] = keep * s[i] + fresh * g[i] * g[i];
    if (centered) mean[i] += fresh * (g[i] - mean[i]);
    const double square = s[i] - mean[i] * mean[i];
    const double step = g[i] / (tf ? std::sqrt(square + eps) : std::sqrt(square) + eps);
    buffer[i] = (buffered ? momentum * buffer[i] : 0) + (tf ? lr * step : step);
    w[i] -= tf ? buffer[i] : lr * buffer[i];
  }
  store(a, 0, w);
  store(a, 1, s);
  if (buffered) store(a, 8, buffer);
  if (centered) store(a, 9, mean);
}

void lamb_direction(const KernelCall& call) {
  const Args a(call);
  const Doubles w = a.in(2), g = gradient(a, 3);
  const double eps = a.scalar(7), weight_decay = a.scalar(8);
  Moments moments(a, 0, g, a.scalar(4), a.scalar(5), a.scalar(6));
  Doubles x(w.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] =
        moments.m[i] / moments.correction1 / (std::sqrt(moments.v[i] / moments.correction2) + eps) +
        weight_decay * w[i];
  }
  store(a, 0, moments.m);
  store(a, 1, moments.v);
  a.out(2, x);
}

}  // namespace

void add_state_kernels(Table& table) {
  table["assign"] = {assign, true};
  table["accumulate"] = {accumulate};
  table["increment"] = {increment, true};
  table["sgd_update"] = {sgd_update};
  table["sgd_momentum_update"] = {sgd_momentum_update};
  table["adam_update"] = {adam_update};
  table["rmsprop_update"] = {rmsprop_update};
  table["lamb_direction"] = {lamb_direction};
}

}  // namespace poptorch::reference
