// A joined step does in one pass what several micro-ops of an optimiser did. It has the same
// operations in the same order, rounded at the same places.
#include <algorithm>

#include "emulator/kernels/sets/adam_vector.hpp"
#include "emulator/kernels/sets/narrow_product.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// Computes y[i] = f(x[i], z[i]) by vectors; the tail runs the same instructions.
template <typename F>
void by_vectors(const float* x, const float* z, float* y, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, f(load<Widest>(x + i), load<Widest>(z + i)));
  if (i == n) return;
  const Mask rest = first_lanes(n - i);
  store(y + i, rest, f(load(x + i, rest), load(z + i, rest)));
}

// Computes (keep, old, fresh, sample) → keep · old + fresh · sample; squared: fresh · sample ·
// sample. The sample and the result are rounded.
template <typename Rounding, bool squared>
void moving_average(const MicroArgs& a, int64_t n) {
  const Widest keep = spread<Widest>(*a.in<float>(0)), fresh = spread<Widest>(*a.in<float>(2));
  by_vectors(a.in<float>(1), a.in<float>(3), a.out<float>(), n,
             [&](Widest old, Widest sample) __attribute__((always_inline)) {
               sample = Rounding::round(sample);
               Widest added = fresh * sample;
               if (squared) added = added * sample;
               return Rounding::round(keep * old + added);
             });
}

// Computes (x, v, eps) → x / (sqrt(v) + eps).
template <typename Rounding>
void root_ratio(const MicroArgs& a, int64_t n) {
  const Widest eps = spread<Widest>(*a.in<float>(2));
  by_vectors(a.in<float>(0), a.in<float>(1), a.out<float>(), n,
             [&](Widest x, Widest v)
                 __attribute__((always_inline)) { return Rounding::round(x / (root(v) + eps)); });
}

// Runs all of Adam in one pass: see AdamVector.
template <typename Vector>
void adam_step(const MicroArgs& a, int64_t n) {
  using M = typename Vector::M;
  const Vector step(a);
  const M* m = a.in<M>(1);
  const float *g = a.in<float>(Vector::kGradient), *v = a.in<float>(5), *w = a.in<float>(8);
  M* m_out = a.out<M>(0);
  float *v_out = a.out<float>(1), *w_out = a.out<float>(2);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    step(load<Widest>(g + i), m + i, v + i, w + i, m_out + i, v_out + i, w_out + i);
  }
  if (i == n) return;
  float in[3][kLanes] = {}, out[2][kLanes];
  M held[kLanes] = {}, left[kLanes];
  std::copy(m + i, m + n, held);
  std::copy(g + i, g + n, in[0]);
  std::copy(v + i, v + n, in[1]);
  std::copy(w + i, w + n, in[2]);
  step(load<Widest>(in[0]), held, in[1], in[2], left, out[0], out[1]);
  std::copy(left, left + (n - i), m_out + i);
  std::copy(out[0], out[0] + (n - i), v_out + i);
  std::copy(out[1], out[1] + (n - i), w_out + i);
}

template <typename Vector>
void adam_of_product(const MicroArgs& a, const NarrowProduct& product) {
  using M = typename Vector::M;
  const Vector step(a);
  const M* m = a.in<M>(1);
  const float *v = a.in<float>(5), *w = a.in<float>(8);
  M* m_out = a.out<M>(0);
  float *v_out = a.out<float>(1), *w_out = a.out<float>(2);
  for_each_vector(product, [&](auto g, int64_t i) __attribute__((always_inline)) {
    step(g, m + i, v + i, w + i, m_out + i, v_out + i, w_out + i);
  });
}

template <typename Rounding, typename RatioRounding, typename Moment>
constexpr JoinedStep adam_as() {
  using Vector = AdamVector<Rounding, RatioRounding, Moment>;
  return {adam_step<Vector>, {adam_of_product<Vector>, Vector::kGradient}};
}

}  // namespace

constinit const JoinedSteps kJoinedSteps = {
    .moving_average = {{moving_average<Plain, false>, moving_average<Plain, true>},
                       {moving_average<Rounded, false>, moving_average<Rounded, true>}},
    .root_ratio = {root_ratio<Plain>, root_ratio<Rounded>},
    .adam = {{{adam_as<Plain, Plain, Wide>(), {}}, {adam_as<Plain, Rounded, Wide>(), {}}},
             {{adam_as<Rounded, Plain, Wide>(), adam_as<Rounded, Plain, Stored>()},
              {adam_as<Rounded, Rounded, Wide>(), adam_as<Rounded, Rounded, Stored>()}}}};

}  // namespace poptorch::emulator::inline POPTORCH_SET
