// Random draws: element i of an op uses number i of its Philox sequence. Rounding has other bits.
#include "reference/rejection.hpp"
#include "reference/rounding_bits.hpp"
#include "reference/tensors.hpp"

namespace poptorch::reference {
namespace {

void random_uniform(Tensors& c) {
  const Philox philox(c.random());
  const double low = c.number("low"), span = c.number("high") - low;
  const int digits = random_digits(c.result().dtype);
  Doubles& y = c.out();
  for (size_t i = 0; i < y.size(); ++i) y[i] = low + span * unit_interval(philox.bits(i), digits);
}

void random_normal(Tensors& c) {
  const Philox philox(c.random());
  Doubles& y = c.out();
  for (size_t i = 0; i < y.size(); ++i) {
    const auto words = philox.block(i / 4);
    const size_t pair = i % 4 / 2 * 2;
    y[i] = c.number("mean") + c.number("std") * normal_pair(words[pair], words[pair + 1])[i % 2];
  }
}

void random_bits(Tensors& c) {
  const Philox philox(c.random());
  Doubles& y = c.out();
  for (size_t i = 0; i < y.size(); ++i) y[i] = philox.bits(i);
}

void seeded_bits(Tensors& c) {
  const Doubles& words = c.in(0);
  const auto high = static_cast<uint64_t>(words[0]), low = static_cast<uint64_t>(words[1]);
  const Philox philox(RandomKey{.seed = high << 32 | low});
  Doubles& y = c.out();
  for (size_t i = 0; i < y.size(); ++i) y[i] = philox.bits(i);
}

void stochastic_cast(Tensors& c) {
  RandomKey key = c.random();
  if (c.flag("same_in_replicas")) key.replica = 0;
  c.out() = c.in(0);
  round_at_random(c.result().dtype, c.out(), key);
}

void bernoulli(Tensors& c) {
  const Philox philox(c.random());
  for (size_t i = 0; i < c.in(0).size(); ++i) {
    c.out()[i] = is_dropped(philox.bits(i), drop_threshold(c.in(0)[i]));
  }
}

void dropout(Tensors& c) {
  const Philox philox(c.random());
  const double p = c.number("p");
  const uint32_t threshold = drop_threshold(p);
  // The factor is an f32 number, as in the fast kernels.
  const double scale = p < 1 ? rounded_to(DType::kF32, 1 / (1 - p)) : 0;
  for (size_t i = 0; i < c.in(0).size(); ++i) {
    const bool kept = !is_dropped(philox.bits(i), threshold);
    c.out(0)[i] = kept ? c.in(0)[i] * scale : 0;
    c.out(1)[i] = kept;
  }
}

void random_gamma(Tensors& c) {
  const Philox philox(c.random());
  for (size_t i = 0; i < c.in(0).size(); ++i) c.out()[i] = gamma_number(philox, i, c.in(0)[i]);
}

void random_poisson(Tensors& c) {
  const Philox philox(c.random());
  for (size_t i = 0; i < c.in(0).size(); ++i) c.out()[i] = poisson_number(philox, i, c.in(0)[i]);
}

void random_binomial(Tensors& c) {
  const Philox philox(c.random());
  for (size_t i = 0; i < c.in(0).size(); ++i) {
    c.out()[i] = binomial_number(philox, i, c.in(0)[i], c.in(1)[i]);
  }
}

}  // namespace

void round_at_random(DType dtype, Doubles& values, const RandomKey& key, uint64_t stream) {
  const RoundingBits bits(key, stream);
  const int least = dtype == DType::kF16 ? -14 : -126;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = rounded_at_random(values[i], bits.of(i), random_digits(dtype), least);
  }
}

void add_random_kernels(Table& t) {
  t["random_uniform"] = {with_tensors<random_uniform>};
  t["random_normal"] = {with_tensors<random_normal>};
  t["random_bits"] = {with_tensors<random_bits>};
  t["seeded_bits"] = {with_tensors<seeded_bits>};
  t["stochastic_cast"] = {with_tensors<stochastic_cast>};
  t["bernoulli"] = {with_tensors<bernoulli>};
  t["random_gamma"] = {with_tensors<random_gamma>};
  t["random_poisson"] = {with_tensors<random_poisson>};
  t["random_binomial"] = {with_tensors<random_binomial>};
  t["dropout"] = {with_tensors<dropout>};
}

}  // namespace poptorch::reference
