// Normalisations: all three see x as rows that share statistics and columns that share parameters.
#include <cmath>

#include "reference/tensors.hpp"

namespace poptorch::reference {
namespace {

// Maps element i of x to its statistics and its weight.
struct Grouping {
  int64_t statistics_count, weight_count;
  std::function<int64_t(int64_t)> statistics, weight;
};

// Returns the elements of a channel of a sample; it is not used when x is empty.
int64_t inner_size(const Shape& x) { return ir::element_count(Shape(x.begin() + 2, x.end())); }

Grouping by_channel(const Shape& x) {
  int64_t inner = inner_size(x), channels = x[1];
  auto channel = [=](int64_t i) { return i / inner % channels; };
  return {channels, channels, channel, channel};
}

Grouping by_rows(const Shape& x, int64_t axes) {
  int64_t inner = ir::element_count(Shape(x.end() - axes, x.end()));
  return {ir::element_count(Shape(x.begin(), x.end() - axes)), inner,
          [=](int64_t i) { return i / inner; }, [=](int64_t i) { return i % inner; }};
}

Grouping by_groups(const Shape& x, int64_t groups) {
  int64_t inner = inner_size(x), channels = x[1];
  int64_t run = inner * channels / groups;
  return {x[0] * groups, channels, [=](int64_t i) { return i / run; },
          [=](int64_t i) { return i / inner % channels; }};
}

Grouping of_batch(Tensors& c) { return by_channel(c.shape(0)); }
Grouping of_layer(Tensors& c) { return by_rows(c.shape(0), c.integer("axes_count")); }
Grouping of_group(Tensors& c) { return by_groups(c.shape(0), c.integer("groups")); }

// Returns how many elements each of `groups` has.
double share(const Doubles& x, size_t groups) {
  return groups ? static_cast<double>(x.size() / groups) : 0;
}

struct Moments {
  Doubles mean, variance;  // biased
  double count;
};

Moments moments(const Doubles& x, const Grouping& g) {
  auto groups = static_cast<size_t>(g.statistics_count);
  Moments m{Doubles(groups, 0), Doubles(groups, 0), share(x, groups)};
  for (size_t i = 0; i < x.size(); ++i) m.mean[g.statistics(i)] += x[i];
  for (double& mean : m.mean) mean /= m.count;
  for (size_t i = 0; i < x.size(); ++i) {
    double d = x[i] - m.mean[g.statistics(i)];
    m.variance[g.statistics(i)] += d * d;
  }
  for (double& variance : m.variance) variance /= m.count;
  return m;
}

Moments normalise(Tensors& c, const Grouping& g) {
  const Doubles& x = c.in(0);
  Moments m = moments(x, g);
  Doubles &y = c.out(0), &inv_std = c.out(2);
  c.out(1) = m.mean;
  for (size_t i = 0; i < inv_std.size(); ++i) {
    inv_std[i] = 1 / std::sqrt(m.variance[i] + c.number("eps"));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t s = g.statistics(i), w = g.weight(i);
    double scale = c.has(1) ? c.in(1)[w] : 1, shift = c.has(2) ? c.in(2)[w] : 0;
    y[i] = (x[i] - m.mean[s]) * inv_std[s] * scale + shift;
  }
  return m;
}

template <Grouping (*grouping)(Tensors&)>
void norm(Tensors& c) {
  normalise(c, grouping(c));
}

// Normalises by channel and updates the running statistics.
void batch_norm(Tensors& c) {
  const Moments m = normalise(c, of_batch(c));
  const double momentum = c.number("momentum");
  for (size_t i = 0; i < m.mean.size(); ++i) {
    double unbiased = m.variance[i] * m.count / (m.count - 1);
    c.out(3)[i] = c.has(3) ? c.in(3)[i] * (1 - momentum) + momentum * m.mean[i] : m.mean[i];
    c.out(4)[i] = c.has(4) ? c.in(4)[i] * (1 - momentum) + momentum * unbiased : unbiased;
  }
}

template <Grouping (*grouping)(Tensors&)>
void norm_grad(Tensors& c) {
  const Grouping g = grouping(c);
  const Doubles &x = c.in(0), &mean = c.in(2), &inv_std = c.in(3), &dy = c.in(4);
  Doubles &dx = c.out(0), &dweight = c.out(1), &dbias = c.out(2);
  Doubles sum(mean.size(), 0), product(mean.size(), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t s = g.statistics(i), w = g.weight(i);
    double normal = (x[i] - mean[s]) * inv_std[s], scaled = dy[i] * (c.has(1) ? c.in(1)[w] : 1);
    sum[s] += scaled;
    product[s] += scaled * normal;
    dweight[w] += dy[i] * normal;
    dbias[w] += dy[i];
  }
  const double count = share(x, mean.size());
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t s = g.statistics(i);
    double normal = (x[i] - mean[s]) * inv_std[s];
    double scaled = dy[i] * (c.has(1) ? c.in(1)[g.weight(i)] : 1);
    dx[i] = inv_std[s] * (scaled - sum[s] / count - normal * product[s] / count);
  }
}

void batch_norm_inference(Tensors& c) {
  const Grouping g = by_channel(c.shape(0));
  const Doubles& x = c.in(0);
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t w = g.weight(i);
    double inv_std = 1 / std::sqrt(c.in(4)[w] + c.number("eps"));
    double scale = c.has(1) ? c.in(1)[w] : 1, shift = c.has(2) ? c.in(2)[w] : 0;
    c.out()[i] = (x[i] - c.in(3)[w]) * inv_std * scale + shift;
  }
}

void batch_norm_factors(Tensors& c) {
  const Doubles &mean = c.in(2), &var = c.in(3);
  for (size_t i = 0; i < var.size(); ++i) {
    const double inv_std = 1 / std::sqrt(var[i] + c.number("eps"));
    c.out(0)[i] = c.has(0) ? inv_std * c.in(0)[i] : inv_std;
    c.out(1)[i] = (c.has(1) ? c.in(1)[i] : 0) - mean[i] * c.out(0)[i];
  }
}

}  // namespace

void add_norm_kernels(Table& t) {
  t["batch_norm"] = {with_tensors<batch_norm>};
  t["layer_norm"] = {with_tensors<norm<of_layer>>};
  t["group_norm"] = {with_tensors<norm<of_group>>};
  t["batch_norm_grad"] = {with_tensors<norm_grad<of_batch>>};
  t["layer_norm_grad"] = {with_tensors<norm_grad<of_layer>>};
  t["group_norm_grad"] = {with_tensors<norm_grad<of_group>>};
  t["batch_norm_inference"] = {with_tensors<batch_norm_inference>};
  t["batch_norm_factors"] = {with_tensors<batch_norm_factors>};
}

}  // namespace poptorch::reference
