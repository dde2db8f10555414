// Host tensors that forward makes by constructors which the dispatcher does not show, such as
// torch.LongTensor(...). Tensors from before the trace are constants; these are mistakes.
#pragma once

#include <ATen/core/Tensor.h>

namespace poptorch::frontend {

// While one lives, this thread notes the host memory that torch allocates for the user's code.
class HostTensorWatch {
 public:
  HostTensorWatch();
  ~HostTensorWatch();
  HostTensorWatch(const HostTensorWatch&) = delete;
  HostTensorWatch& operator=(const HostTensorWatch&) = delete;
};

// While one lives, allocations are ours and not noted.
class UnwatchedRegion {
 public:
  UnwatchedRegion();
  ~UnwatchedRegion();

 private:
  bool before_;
};

// True for a host tensor with dimensions whose memory was noted.
bool made_in_forward(const at::Tensor& tensor);
// Host memory that the user asked for on the device; asked once, it is forgotten.
void note_for_device(const at::Tensor& tensor);
bool was_for_device(const at::Tensor& tensor);
void accept_host_tensor(const at::Tensor& tensor);  // it was moved to the device on purpose

}  // namespace poptorch::frontend
