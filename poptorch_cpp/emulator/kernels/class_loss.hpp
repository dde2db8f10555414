// What the losses over classes share.
#pragma once

#include <optional>
#include <string>

#include "emulator/kernels/support.hpp"

namespace poptorch::emulator {

// Cross-entropy and negative log-likelihood of any kind: scores of places beside classes, weights
// of classes, smoothed labels. `softmax`: through log_softmax.
std::unique_ptr<BoundKernel> make_class_loss(const KernelRequest& request, bool softmax);
std::unique_ptr<BoundKernel> make_class_loss_grad(const KernelRequest& request, bool softmax);

// UserError unless it is a class.
void check_target(const std::string& op, int32_t target, int64_t classes);

}  // namespace poptorch::emulator
