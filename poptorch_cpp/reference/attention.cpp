// Scaled dot-product attention and its gradients, with the whole score matrix in memory.
#include <algorithm>
#include <cmath>

#include "reference/tensors.hpp"

namespace poptorch::reference {
namespace {

struct Heads {
  int64_t count, queries, keys, width, value_width;
  explicit Heads(Tensors& c)
      : count(c.shape(0)[0] * c.shape(0)[1]),
        queries(c.shape(0)[2]),
        keys(c.shape(1)[2]),
        width(c.shape(0)[3]),
        value_width(c.shape(2)[3]) {}
};

// Returns the scores of one head's query against every key it sees; -inf where hidden.
Doubles scores_of(Tensors& c, const Heads& h, const std::vector<int64_t>& mask, int64_t head,
                  int64_t query) {
  Doubles out(static_cast<size_t>(h.keys), -INFINITY);
  const double scale = c.number("scale");
  for (int64_t key = 0; key < h.keys; ++key) {
    if (c.flag("causal") && key > query) break;
    double dot = 0;
    for (int64_t i = 0; i < h.width; ++i) {
      dot += c.in(0)[(head * h.queries + query) * h.width + i] *
             c.in(1)[(head * h.keys + key) * h.width + i];
    }
    out[key] = dot * scale;
    if (c.has(3)) out[key] += c.in(3)[mask[(head * h.queries + query) * h.keys + key]];
  }
  return out;
}

std::vector<int64_t> mask_indices(Tensors& c, const Heads& h) {
  if (!c.has(3)) return {};
  return broadcast_indices(c.shape(3), {c.shape(0)[0], c.shape(0)[1], h.queries, h.keys});
}

void attention(Tensors& c) {
  const Heads h(c);
  const auto mask = mask_indices(c, h);
  for (int64_t row = 0; row < h.count * h.queries; ++row) {
    const int64_t head = row / h.queries;
    const Doubles scores = scores_of(c, h, mask, head, row % h.queries);
    const double greatest = *std::max_element(scores.begin(), scores.end());
    if (greatest == -INFINITY) {
      c.out(1)[row] = INFINITY;
      continue;
    }
    double sum = 0;
    for (double score : scores) sum += std::exp(score - greatest);
    c.out(1)[row] = greatest + std::log(sum);
    for (int64_t key = 0; key < h.keys; ++key) {
      const double weight = std::exp(scores[key] - greatest) / sum;
      for (int64_t i = 0; i < h.value_width; ++i) {
        c.out(0)[row * h.value_width + i] +=
            weight * c.in(2)[(head * h.keys + key) * h.value_width + i];
      }
    }
  }
}

void attention_grad(Tensors& c) {
  const Heads h(c);
  const auto mask = mask_indices(c, h);
  const double scale = c.number("scale");
  const Doubles &q = c.in(0), &k = c.in(1), &v = c.in(2), &o = c.in(4), &dout = c.in(6);
  for (int64_t row = 0; row < h.count * h.queries; ++row) {
    const int64_t head = row / h.queries;
    const Doubles scores = scores_of(c, h, mask, head, row % h.queries);
    double delta = 0;
    for (int64_t i = 0; i < h.value_width; ++i) {
      delta += dout[row * h.value_width + i] * o[row * h.value_width + i];
    }
    for (int64_t key = 0; key < h.keys; ++key) {
      const double weight = std::exp(scores[key] - c.in(5)[row]);
      const int64_t key_row = head * h.keys + key;
      double dweight = 0;
      for (int64_t i = 0; i < h.value_width; ++i) {
        dweight += dout[row * h.value_width + i] * v[key_row * h.value_width + i];
        c.out(2)[key_row * h.value_width + i] += weight * dout[row * h.value_width + i];
      }
      const double dscore = weight * (dweight - delta) * scale;
      for (int64_t i = 0; i < h.width; ++i) {
        c.out(0)[row * h.width + i] += dscore * k[key_row * h.width + i];
        c.out(1)[key_row * h.width + i] += dscore * q[row * h.width + i];
      }
    }
  }
}

}  // namespace

void add_attention_kernels(Table& t) {
  t["attention"] = {with_tensors<attention>};
  t["attention_grad"] = {with_tensors<attention_grad>};
}

}  // namespace poptorch::reference
