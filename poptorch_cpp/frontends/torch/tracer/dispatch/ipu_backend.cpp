// Allocates host memory for torch's constructors of tensors from data (torch.tensor, x[[0, 2]]).
// They exclude the tracer while they work, and request memory from the device's backend. The tracer
// then receives the new tensor as a constant.
#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include "frontends/torch/tracer/graph/host_tensors.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "support/error.hpp"

namespace poptorch::frontend {
namespace {

void check_traced() {
  if (Tracer::current()) return;
  throw support::UserError(
      "[tracer] tensors on device 'ipu' exist only inside the forward of a wrapped model. Leave "
      "inputs and weights on the CPU: the executor moves them.");
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>,
                 std::optional<c10::MemoryFormat>) {
  check_traced();
  const at::Tensor tensor =
      at::detail::empty_cpu(C10_AS_INTARRAYREF_SLOW(size), c10::dtype_or_default(dtype));
  note_for_device(tensor);
  return tensor;
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                         std::optional<c10::Device>, std::optional<bool>) {
  check_traced();
  const at::Tensor tensor = at::detail::empty_strided_cpu(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), c10::dtype_or_default(dtype));
  note_for_device(tensor);
  return tensor;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, IPU, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
}

}  // namespace poptorch::frontend
