// The kernels and checks that the losses over classes share.
#pragma once

#include <optional>
#include <string>

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/rows.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Makes any cross-entropy or negative log-likelihood: scores with several places per class, class
// weights, smoothed labels. `softmax`: the loss applies log_softmax first.
std::unique_ptr<BoundKernel> make_class_loss(const KernelRequest& request, bool softmax);
std::unique_ptr<BoundKernel> make_class_loss_grad(const KernelRequest& request, bool softmax);

// Subtracts from each element of a row what log_softmax does.
struct LogScale {
  float top, shift;
  float operator()(float x) const { return (x - top) - shift; }
};

// Computes y = log_softmax(x) of one row; x and y must differ.
template <typename X, typename Y>
LogScale log_softmax_row(const X* x, Y* y, int64_t n) {
  const float top = max_row(n, x);
  const float total = sum_row(n, [top](auto v) { return vec::exp(v - top); }, x);
  const LogScale scale{top, vec::log(total)};
  map_row(n, y, scale, x);
  return scale;
}

// Throws UserError: `target` is not a class.
[[noreturn]] void refuse_target(const std::string& op, int32_t target, int64_t classes);

inline void check_target(const std::string& op, int32_t target, int64_t classes) {
  if (target < 0 || target >= classes) refuse_target(op, target, classes);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
