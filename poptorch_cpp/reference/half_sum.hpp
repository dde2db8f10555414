// The sum of products whose partial sums are float16.
#pragma once

#include <cmath>
#include <cstdint>

#include "reference/convert.hpp"

namespace poptorch::reference {

// Adds products of halves in float32, and rounds the sum to float16 after every kHalfPartials terms
// and at the end. The matrix unit of an IPU sums blocks of 16 inputs in this way.
constexpr int64_t kHalfPartials = 16;

class HalfSum {
 public:
  void add(double a, double b) {
    sum_ = std::fma(static_cast<float>(a), static_cast<float>(b), sum_);
    if (++terms_ % kHalfPartials == 0) round();
  }
  // Adds terms that are zero.
  void skip(int64_t terms) {
    if (terms_ / kHalfPartials != (terms_ + terms) / kHalfPartials) round();
    terms_ += terms;
  }
  double value() {
    round();
    return sum_;
  }

 private:
  void round() { sum_ = static_cast<float>(rounded_to(ir::DType::kF16, sum_)); }

  float sum_ = 0;
  int64_t terms_ = 0;
};

}  // namespace poptorch::reference
