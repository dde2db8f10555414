// Which tensors have values that can be read where torch says they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace poptorch::frontend {

// What keeps the core from the values of a tensor, and which tensor to pass instead.
struct NotPlain {
  std::string problem;  // "is a quantised tensor"; empty: nothing
  std::string cure;     // ".dequantize()"
};

// Dense tensors of the host are plain, also of subclasses that leave torch's dispatch alone: not
// those of other devices and layouts, fake and nested ones, those of transforms of torch.func, and
// those whose memory is gone. Costs some nanoseconds for a plain tensor.
NotPlain why_not_plain(const at::Tensor& tensor);

}  // namespace poptorch::frontend
