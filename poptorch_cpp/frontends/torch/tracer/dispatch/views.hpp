// View operators of torch: what their results are in terms of their base.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "frontends/torch/tracer/graph/torch_call.hpp"
#include "frontends/torch/tracer/values/view_link.hpp"

namespace poptorch::frontend {

// The link from the view operator's base (argument 0) to its result number `index`, `result`.
// `position` is where that result starts along the split axis. nullptr: only the geometry tells.
ViewLinkPtr link_of_view(const std::string& op, const TorchCall& call, const at::Tensor& base,
                         const at::Tensor& result, int64_t index, int64_t& position);

}  // namespace poptorch::frontend
