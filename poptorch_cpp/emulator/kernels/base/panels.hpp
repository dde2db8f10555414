// Weights that memory holds in the form in which products read them.
#pragma once

#include <algorithm>

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {

// Returns whether operand 1 may be held in panels for a product with `columns` columns: no step
// writes it, everything is of floats, and there are whole panels.
inline bool may_hold_panels(const KernelRequest& request, int64_t columns) {
  const auto is_f32 = [](const auto& type) { return !type || type->dtype == ir::DType::kF32; };
  return request.input_fixed.size() > 1 && request.input_fixed[1] && columns % kPanel == 0 &&
         std::ranges::all_of(request.inputs, is_f32) &&
         request.outputs[0].dtype == ir::DType::kF32 && !has_half_partials(request);
}

}  // namespace poptorch::emulator
