// Describes the results of torch's view operators in terms of their base.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "frontends/torch/tracer/graph/torch_call.hpp"
#include "frontends/torch/tracer/values/view_link.hpp"

namespace poptorch::frontend {

// Returns the link from the view operator's base (argument 0) to its result number `index`,
// `result`. Returns nullptr if only the geometry describes the result. `position` is the start of
// the result along the axis that an operator splits; it is advanced to the next result.
ViewLinkPtr link_of_view(const std::string& op, const TorchCall& call, const at::Tensor& base,
                         const at::Tensor& result, int64_t index, int64_t& position);

}  // namespace poptorch::frontend
