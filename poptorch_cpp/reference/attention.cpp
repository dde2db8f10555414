// Scaled dot-product attention and its gradients, with the whole score matrix in memory.
#include <algorithm>
#include <cmath>

#include "reference/half_sum.hpp"
#include "reference/tensors.hpp"

namespace poptorch::reference {
namespace {

struct Heads {
  int64_t count, queries, keys, width, value_width;
  bool halves;  // partial sums are float16
  explicit Heads(Tensors& c)
      : count(c.shape(0)[0] * c.shape(0)[1]),
        queries(c.shape(0)[2]),
        keys(c.shape(1)[2]),
        width(c.shape(0)[3]),
        value_width(c.shape(2)[3]),
        halves(c.text("partials") == "half") {}
};

// A sum of products in doubles, or with half partials. Operands that the op computes itself are
// then rounded to float16, as those of every product of float16 are.
class Dot {
 public:
  explicit Dot(bool halves) : halves_(halves) {}
  void add(double a, double b) {
    if (halves_) {
      half_.add(operand(a), operand(b));
    } else {
      sum_ += a * b;
    }
  }
  double value() { return halves_ ? half_.value() : sum_; }

 private:
  double operand(double x) const { return rounded_to(DType::kF16, x); }

  bool halves_;
  double sum_ = 0;
  HalfSum half_;
};

// Returns the scores of one head's query against every key it sees; -inf where hidden.
Doubles scores_of(Tensors& c, const Heads& h, const std::vector<int64_t>& mask, int64_t head,
                  int64_t query) {
  Doubles out(static_cast<size_t>(h.keys), -INFINITY);
  const double scale = c.number("scale");
  for (int64_t key = 0; key < h.keys; ++key) {
    if (c.flag("causal") && key > query) break;
    Dot dot(h.halves);
    for (int64_t i = 0; i < h.width; ++i) {
      dot.add(c.in(0)[(head * h.queries + query) * h.width + i],
              c.in(1)[(head * h.keys + key) * h.width + i]);
    }
    out[key] = dot.value() * scale;
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
    for (int64_t i = 0; i < h.value_width; ++i) {
      Dot context(h.halves);
      for (int64_t key = 0; key < h.keys; ++key) {
        context.add(std::exp(scores[key] - greatest) / sum,
                    c.in(2)[(head * h.keys + key) * h.value_width + i]);
      }
      c.out(0)[row * h.value_width + i] = context.value();
    }
  }
}

void attention_grad(Tensors& c) {
  const Heads h(c);
  const auto mask = mask_indices(c, h);
  const double scale = c.number("scale");
  const Doubles &q = c.in(0), &k = c.in(1), &v = c.in(2), &o = c.in(4), &dout = c.in(6);
  std::vector<Dot> of_key(static_cast<size_t>(h.count * h.keys * h.width), Dot(h.halves));
  std::vector<Dot> of_value(static_cast<size_t>(h.count * h.keys * h.value_width), Dot(h.halves));
  for (int64_t row = 0; row < h.count * h.queries; ++row) {
    const int64_t head = row / h.queries;
    const Doubles scores = scores_of(c, h, mask, head, row % h.queries);
    double delta = 0;
    for (int64_t i = 0; i < h.value_width; ++i) {
      delta += dout[row * h.value_width + i] * o[row * h.value_width + i];
    }
    std::vector<Dot> of_query(static_cast<size_t>(h.width), Dot(h.halves));
    for (int64_t key = 0; key < h.keys; ++key) {
      const double weight = std::exp(scores[key] - c.in(5)[row]);
      const int64_t key_row = head * h.keys + key;
      Dot dweight(h.halves);
      for (int64_t i = 0; i < h.value_width; ++i) {
        dweight.add(dout[row * h.value_width + i], v[key_row * h.value_width + i]);
        of_value[key_row * h.value_width + i].add(weight, dout[row * h.value_width + i]);
      }
      const double dscore = weight * (dweight.value() - delta) * scale;
      for (int64_t i = 0; i < h.width; ++i) {
        of_query[i].add(dscore, k[key_row * h.width + i]);
        of_key[key_row * h.width + i].add(dscore, q[row * h.width + i]);
      }
    }
    for (int64_t i = 0; i < h.width; ++i) c.out(0)[row * h.width + i] = of_query[i].value();
  }
  for (size_t i = 0; i < of_key.size(); ++i) c.out(1)[i] = of_key[i].value();
  for (size_t i = 0; i < of_value.size(); ++i) c.out(2)[i] = of_value[i].value();
}

}  // namespace

void add_attention_kernels(Table& t) {
  t["attention"] = {with_tensors<attention>};
  t["attention_grad"] = {with_tensors<attention_grad>};
}

}  // namespace poptorch::reference
