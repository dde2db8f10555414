// Tensors that a trace made and that the program keeps after it, such as tables in a cache. Where
// their values are known, they become ordinary tensors of the host, and constants of later traces.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace poptorch::frontend {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// Lists the tensors that a trace makes, without keeping them alive.
class MadeTensors {
 public:
  void add(const at::Tensor& tensor) { made_.emplace_back(tensor.getIntrusivePtr()); }
  std::vector<at::Tensor> alive() const;

 private:
  std::vector<WeakTensor> made_;
};

// Gives a tensor of a trace memory of the host; its shape and strides stay.
void carry_over(const at::Tensor& tensor, const c10::Storage& memory);

// Returns the tensors that were carried over and are still alive.
std::vector<at::Tensor> carried_tensors();

}  // namespace poptorch::frontend
