// This file is compiled once for each instruction set.
#include "emulator/kernels/wide/product_updates.hpp"

#include "emulator/kernels/adam_vector.hpp"
#include "emulator/kernels/flush_denormals.hpp"
#include "emulator/kernels/narrow_product.hpp"
#include "emulator/kernels/update_formulas.hpp"

namespace poptorch::emulator {
namespace {

template <typename Update>
void over_product(const MicroArgs& a, const NarrowProduct& product) {
  const Update update(a);
  const FlushDenormals flush(update.flushes_denormals());
  for_each_vector(product, [&](auto g, int64_t i) __attribute__((always_inline)) { update(g, i); });
}

template <typename Rounding, typename RatioRounding, typename Moment>
void rounded_adam(const MicroArgs& a, const NarrowProduct& product) {
  using Vector = AdamVector<Rounding, RatioRounding, Moment>;
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

}  // namespace

template <>
const ProductUpdates& product_updates<kIsa>() {
  static constexpr ProductUpdates kUpdates = {
      .sgd = over_product<Sgd>,
      .adam = over_product<Adam<false>>,
      .adamw = over_product<Adam<true>>,
      .accumulate = over_product<Accumulate>,
      .rounded_adam = {
          {{rounded_adam<Plain, Plain, Wide>, nullptr}, {rounded_adam<Plain, Half, Wide>, nullptr}},
          {{rounded_adam<Half, Plain, Wide>, rounded_adam<Half, Plain, Stored>},
           {rounded_adam<Half, Half, Wide>, rounded_adam<Half, Half, Stored>}}}};
  return kUpdates;
}

}  // namespace poptorch::emulator
