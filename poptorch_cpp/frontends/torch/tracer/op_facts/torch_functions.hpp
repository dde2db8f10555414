// Declares functions of torch whose headers take longer to parse than the whole tracer. The linker
// checks the declarations against the libtorch that the package is built for.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace at::autocast {
TORCH_API bool is_autocast_enabled(at::DeviceType device_type);  // ATen/autocast_mode.h
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
}  // namespace at::autocast

namespace torch::autograd {
// torch/csrc/autograd/autograd.h
TORCH_API std::vector<at::Tensor> grad(const std::vector<at::Tensor>& outputs,
                                       const std::vector<at::Tensor>& inputs,
                                       const std::vector<at::Tensor>& grad_outputs,
                                       std::optional<bool> retain_graph, bool create_graph,
                                       bool allow_unused);
}  // namespace torch::autograd
