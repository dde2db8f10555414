// Runs custom ops outside of a trace.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace poptorch::frontend {

// Returns the op's outputs for tensors of the host, as one replica. Records no gradient. Throws
// UserError as ops::CustomCall does.
std::vector<at::Tensor> run_custom_op(at::TensorList inputs, const std::string& name,
                                      const std::string& domain, int64_t version,
                                      const std::string& attributes);

}  // namespace poptorch::frontend
