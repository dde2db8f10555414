// Determines whether a tensor's values can be read at the address that torch reports.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace poptorch::frontend {

// Describes why the core cannot read a tensor's values, and which tensor to pass instead.
struct NotPlain {
  std::string problem;  // "is a quantised tensor"; empty for a plain tensor
  std::string cure;     // ".dequantize()"
};

// Returns an empty problem for a plain tensor, in some nanoseconds. Dense tensors of the host are
// plain, including those of subclasses that do not change torch's dispatch. These are not plain:
// tensors of other devices and layouts, fake and nested tensors, those of torch.func's transforms,
// and those whose memory is gone.
NotPlain why_not_plain(const at::Tensor& tensor);

}  // namespace poptorch::frontend
