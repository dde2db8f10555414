// Custom ops outside of a trace.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace poptorch::frontend {

// What the op gives on the host for tensors of it, as one replica; no gradient is recorded.
// UserError as of ops::CustomCall.
std::vector<at::Tensor> run_custom_op(at::TensorList inputs, const std::string& name,
                                      const std::string& domain, int64_t version,
                                      const std::string& attributes);

}  // namespace poptorch::frontend
