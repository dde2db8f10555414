// LSTM and GRU, step by step, with torch's gate orders.
#include <cmath>

#include "reference/tensors.hpp"

namespace poptorch::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Sizes {
  int64_t time, batch, in, hidden;
  explicit Sizes(Tensors& c)
      : time(c.shape(0)[0]), batch(c.shape(0)[1]), in(c.shape(0)[2]), hidden(c.shape(1)[1]) {}
};

// Returns the steps in the order in which they run.
std::vector<int64_t> steps(Tensors& c, int64_t time) {
  std::vector<int64_t> out;
  for (int64_t t = 0; t < time; ++t) out.push_back(c.flag("reverse") ? time - 1 - t : t);
  return out;
}

// Computes row · wᵀ (+ bias): gates of one sample.
Doubles product(const double* row, const Doubles& w, int64_t width, const Doubles* bias) {
  Doubles out(w.size() / static_cast<size_t>(width), 0);
  for (size_t j = 0; j < out.size(); ++j) {
    if (bias) out[j] = (*bias)[j];
    for (int64_t i = 0; i < width; ++i) out[j] += row[i] * w[static_cast<int64_t>(j) * width + i];
  }
  return out;
}

// Computes dw += dgates ⊗ row; drow += dgates · w.
void backward(const Doubles& dgates, const double* row, const Doubles& w, int64_t width,
              Doubles& dw, double* drow) {
  for (size_t j = 0; j < dgates.size(); ++j) {
    for (int64_t i = 0; i < width; ++i) {
      dw[static_cast<int64_t>(j) * width + i] += dgates[j] * row[i];
      drow[i] += dgates[j] * w[static_cast<int64_t>(j) * width + i];
    }
  }
}

const Doubles* optional(Tensors& c, size_t i) { return c.has(i) ? &c.in(i) : nullptr; }

void lstm(Tensors& c) {
  const Sizes s(c);
  Doubles h = c.in(1), cell = c.in(2);
  for (int64_t t : steps(c, s.time)) {
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t row = t * s.batch + n;
      Doubles gates = product(&c.in(0)[row * s.in], c.in(3), s.in, optional(c, 5));
      const Doubles more = product(&h[n * s.hidden], c.in(4), s.hidden, optional(c, 6));
      for (size_t j = 0; j < gates.size(); ++j) gates[j] += more[j];
      for (int64_t j = 0; j < s.hidden; ++j) {
        const double i = sigmoid(gates[j]), f = sigmoid(gates[s.hidden + j]),
                     g = std::tanh(gates[2 * s.hidden + j]), o = sigmoid(gates[3 * s.hidden + j]);
        double& memory = cell[n * s.hidden + j];
        memory = f * memory + i * g;
        c.out(0)[row * s.hidden + j] = o * std::tanh(memory);
        double* kept = &c.out(3)[row * 5 * s.hidden + j];
        for (double value : {i, f, g, o, memory}) {
          *kept = value;
          kept += s.hidden;
        }
      }
      for (int64_t j = 0; j < s.hidden; ++j) h[n * s.hidden + j] = c.out(0)[row * s.hidden + j];
    }
  }
  c.out(1) = h;
  c.out(2) = cell;
}

// Returns the hidden state (or the cell) before step index `k` of `order`, for sample n.
const double* before(const Doubles& initial, const Doubles& all, const std::vector<int64_t>& order,
                     size_t k, const Sizes& s, int64_t n, int64_t width, int64_t offset) {
  if (k == 0) return &initial[n * s.hidden];
  return &all[(order[k - 1] * s.batch + n) * width + offset];
}

void lstm_grad(Tensors& c) {
  const Sizes s(c);
  const Doubles &y = c.in(5), &reserve = c.in(6), &dy = c.in(7);
  const auto order = steps(c, s.time);
  Doubles dh = c.in(8), dc = c.in(9);
  for (size_t k = order.size(); k-- > 0;) {
    Doubles dh_before(dh.size(), 0);
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t row = order[k] * s.batch + n;
      const double* kept = &reserve[row * 5 * s.hidden];
      const double* cell = before(c.in(2), reserve, order, k, s, n, 5 * s.hidden, 4 * s.hidden);
      Doubles dgates(static_cast<size_t>(4 * s.hidden));
      for (int64_t j = 0; j < s.hidden; ++j) {
        const double i = kept[j], f = kept[s.hidden + j], g = kept[2 * s.hidden + j],
                     o = kept[3 * s.hidden + j], squashed = std::tanh(kept[4 * s.hidden + j]);
        const double dout = dh[n * s.hidden + j] + dy[row * s.hidden + j];
        const double dcell = dc[n * s.hidden + j] + dout * o * (1 - squashed * squashed);
        dgates[j] = dcell * g * i * (1 - i);
        dgates[s.hidden + j] = dcell * cell[j] * f * (1 - f);
        dgates[2 * s.hidden + j] = dcell * i * (1 - g * g);
        dgates[3 * s.hidden + j] = dout * squashed * o * (1 - o);
        dc[n * s.hidden + j] = dcell * f;
      }
      backward(dgates, &c.in(0)[row * s.in], c.in(3), s.in, c.out(3), &c.out(0)[row * s.in]);
      backward(dgates, before(c.in(1), y, order, k, s, n, s.hidden, 0), c.in(4), s.hidden, c.out(4),
               &dh_before[n * s.hidden]);
      for (size_t j = 0; j < dgates.size(); ++j) c.out(5)[j] += dgates[j];
    }
    dh = dh_before;
  }
  c.out(1) = dh;
  c.out(2) = dc;
  c.out(6) = c.out(5);
}

void gru(Tensors& c) {
  const Sizes s(c);
  Doubles h = c.in(1);
  for (int64_t t : steps(c, s.time)) {
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t row = t * s.batch + n;
      const Doubles a = product(&c.in(0)[row * s.in], c.in(2), s.in, optional(c, 4));
      const Doubles b = product(&h[n * s.hidden], c.in(3), s.hidden, optional(c, 5));
      for (int64_t j = 0; j < s.hidden; ++j) {
        const double r = sigmoid(a[j] + b[j]), z = sigmoid(a[s.hidden + j] + b[s.hidden + j]);
        const double inner = b[2 * s.hidden + j],
                     fresh = std::tanh(a[2 * s.hidden + j] + r * inner);
        double& state = h[n * s.hidden + j];
        state = (1 - z) * fresh + z * state;
        c.out(0)[row * s.hidden + j] = state;
        double* kept = &c.out(2)[row * 4 * s.hidden + j];
        for (double value : {r, z, fresh, inner}) {
          *kept = value;
          kept += s.hidden;
        }
      }
    }
  }
  c.out(1) = h;
}

void gru_grad(Tensors& c) {
  const Sizes s(c);
  const Doubles &y = c.in(4), &reserve = c.in(5), &dy = c.in(6);
  const auto order = steps(c, s.time);
  Doubles dh = c.in(7);
  for (size_t k = order.size(); k-- > 0;) {
    Doubles dh_before(dh.size(), 0);
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t row = order[k] * s.batch + n;
      const double* kept = &reserve[row * 4 * s.hidden];
      const double* state = before(c.in(1), y, order, k, s, n, s.hidden, 0);
      Doubles da(static_cast<size_t>(3 * s.hidden)), db(da.size());
      for (int64_t j = 0; j < s.hidden; ++j) {
        const double r = kept[j], z = kept[s.hidden + j], fresh = kept[2 * s.hidden + j],
                     inner = kept[3 * s.hidden + j];
        const double dout = dh[n * s.hidden + j] + dy[row * s.hidden + j];
        const double dfresh = dout * (1 - z) * (1 - fresh * fresh);
        da[j] = db[j] = dfresh * inner * r * (1 - r);
        da[s.hidden + j] = db[s.hidden + j] = dout * (state[j] - fresh) * z * (1 - z);
        da[2 * s.hidden + j] = dfresh;
        db[2 * s.hidden + j] = dfresh * r;
        dh_before[n * s.hidden + j] += dout * z;
      }
      backward(da, &c.in(0)[row * s.in], c.in(2), s.in, c.out(2), &c.out(0)[row * s.in]);
      backward(db, state, c.in(3), s.hidden, c.out(3), &dh_before[n * s.hidden]);
      for (size_t j = 0; j < da.size(); ++j) {
        c.out(4)[j] += da[j];
        c.out(5)[j] += db[j];
      }
    }
    dh = dh_before;
  }
  c.out(1) = dh;
}

}  // namespace

void add_rnn_kernels(Table& t) {
  t["lstm"] = {with_tensors<lstm>};
  t["lstm_grad"] = {with_tensors<lstm_grad>};
  t["gru"] = {with_tensors<gru>};
  t["gru_grad"] = {with_tensors<gru_grad>};
}

}  // namespace poptorch::reference
