// The kernels and checks that the losses over classes share.
#pragma once

#include <optional>
#include <string>

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Makes any cross-entropy or negative log-likelihood: scores with several places per class, class
// weights, smoothed labels. `softmax`: the loss applies log_softmax first.
std::unique_ptr<BoundKernel> make_class_loss(const KernelRequest& request, bool softmax);
std::unique_ptr<BoundKernel> make_class_loss_grad(const KernelRequest& request, bool softmax);

// Computes y = log_softmax(x) of one row; x and y must differ. Defined in softmax.cpp.
void log_softmax_row(const float* x, float* y, int64_t n);

// Throws UserError: `target` is not a class.
[[noreturn]] void refuse_target(const std::string& op, int32_t target, int64_t classes);

inline void check_target(const std::string& op, int32_t target, int64_t classes) {
  if (target < 0 || target >= classes) refuse_target(op, target, classes);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
