// Random numbers of distributions that are drawn by rejection. Each element owns a part of the op's
// Philox sequence, one block per trial, so that it is the same wherever it is drawn. The reference
// and the fast kernels both use it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/philox.hpp"

namespace poptorch::reference {

// The blocks of one element's trials. Nine in ten are accepted, so the last block is never reached
// in practice.
class Trials {
 public:
  static constexpr uint64_t kMost = 4096;

  Trials(const Philox& philox, uint64_t element) : philox_(philox), first_(element * kMost) {}
  bool next() {
    if (count_ == kMost) return false;
    block_ = philox_.block(first_ + count_++);
    return true;
  }
  // Returns word `i` of the trial as a number of (0, 1).
  double between(size_t i) const { return (block_[i] + 0.5) * 0x1p-32; }
  double normal() const { return normal_pair(block_[0], block_[1])[0]; }

 private:
  const Philox& philox_;
  uint64_t first_, count_ = 0;
  Philox::Block block_{};
};

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// Draws from the gamma distribution with shape alpha and scale 1 (Marsaglia and Tsang, "A simple
// method for generating gamma variables", 2000). A shape below 1 is raised by one; the number is
// then multiplied with a power of a uniform one.
inline double gamma_number(const Philox& philox, uint64_t element, double alpha) {
  if (!(alpha >= 0) || std::isinf(alpha)) return kNoNumber;
  if (alpha == 0) return 0;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  Trials trials(philox, element);
  while (trials.next()) {
    const double x = trials.normal(), root = 1 + c * x, v = root * root * root;
    if (root <= 0) continue;
    if (std::log(trials.between(2)) >= 0.5 * x * x + d * (1 - v + std::log(v))) continue;
    return alpha < 1 ? d * v * std::pow(trials.between(3), 1 / alpha) : d * v;
  }
  return kNoNumber;
}

// Counts outcomes below the quantile `u`, by their probabilities. The first probability is `p`;
// ratio(k) gives the factor from k - 1 to k.
template <typename Ratio>
double by_inversion(double u, double p, double most, Ratio ratio) {
  double count = 0;
  while (u > p && count < most) {
    u -= p;
    count += 1;
    p *= ratio(count);
    if (p <= 0) break;
  }
  return count;
}

// Returns a uniform number of 53 bits, for quantiles far out.
inline double fine_between(const Philox& philox, uint64_t element) {
  const auto block = philox.block(element * Trials::kMost);
  return (block[0] + (block[1] >> 11) * 0x1p-21 + 0x1p-22) * 0x1p-32;
}

// Draws by inversion, or from a rate of 10 on by transformed rejection (Hörmann, "The transformed
// rejection method for generating Poisson random variables", 1993: PTRS).
inline double poisson_number(const Philox& philox, uint64_t element, double rate) {
  if (!(rate >= 0) || std::isinf(rate)) return kNoNumber;
  if (rate < 10) {
    return by_inversion(fine_between(philox, element), std::exp(-rate), 1000,
                        [&](double k) { return rate / k; });
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), quick = 0.9277 - 3.6224 / (b - 2);
  Trials trials(philox, element);
  while (trials.next()) {
    const double u = trials.between(0) - 0.5, v = trials.between(1), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= quick) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double tried = std::log(v * inverse_alpha / (a / (us * us) + b));
    if (tried <= k * std::log(rate) - rate - std::lgamma(k + 1)) return k;
  }
  return kNoNumber;
}

// Draws by inversion, or where 10 and more are expected by transformed rejection (Hörmann, "The
// generation of binomial random variates", 1993: BTRS).
inline double binomial_number(const Philox& philox, uint64_t element, double n, double p) {
  if (!(n >= 0) || !(p >= 0 && p <= 1) || std::isinf(n)) return kNoNumber;
  n = std::floor(n);
  if (p > 0.5) return n - binomial_number(philox, element, n, 1 - p);
  const double q = 1 - p, r = p / q;
  if (n * p < 10) {
    return by_inversion(fine_between(philox, element), std::pow(q, n), n,
                        [&](double k) { return r * (n - k + 1) / k; });
  }
  const double spread = std::sqrt(n * p * q), b = 1.15 + 2.53 * spread;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, alpha = (2.83 + 5.1 / b) * spread;
  const double quick = 0.92 - 4.2 / b, mode = std::floor((n + 1) * p);
  const double top = std::lgamma(mode + 1) + std::lgamma(n - mode + 1);
  Trials trials(philox, element);
  while (trials.next()) {
    const double u = trials.between(0) - 0.5, v = trials.between(1), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + n * p + 0.5);
    if (k < 0 || k > n) continue;
    if (us >= 0.07 && v <= quick) return k;
    const double tried = std::log(v * alpha / (a / (us * us) + b));
    const double weight = top - std::lgamma(k + 1) - std::lgamma(n - k + 1);
    if (tried <= weight + (k - mode) * std::log(r)) return k;
  }
  return kNoNumber;
}

}  // namespace poptorch::reference
