// Registers torch.ops.poptorch.custom_op, for which the tracer has a row. The op receives inputs as
// the device would hold them: 64-bit numbers become 32-bit numbers.
#include "frontends/torch/custom_ops.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "frontends/torch/tracer/values/types.hpp"
#include "ops/custom_ops.hpp"

namespace poptorch::frontend {

std::vector<at::Tensor> run_custom_op(at::TensorList inputs, const std::string& name,
                                      const std::string& domain, int64_t version,
                                      const std::string& attributes) {
  const at::AutoDispatchBelowAutograd below;
  std::vector<at::Tensor> held;
  std::vector<ir::Type> types;
  for (const at::Tensor& input : inputs) {
    held.push_back(narrowed(input.detach(), "an input of a custom op"));
    types.push_back(type_of_tensor(held.back()));
  }
  const ops::CustomCall call({domain, name, version}, attributes, std::move(types));
  for (const ir::Type& type : call.outputs()) {
    held.push_back(at::empty(type.shape, torch_dtype(type.dtype)));
  }
  std::vector<void*> buffers;
  for (const at::Tensor& tensor : held) buffers.push_back(tensor.data_ptr());
  call.run(buffers.data(), 0, 1);
  return {held.begin() + static_cast<int64_t>(inputs.size()), held.end()};
}

TORCH_LIBRARY_FRAGMENT(poptorch, m) {
  m.def("custom_op(Tensor[] inputs, str name, str domain, int version, str attributes) -> Tensor[]",
        run_custom_op);
}

}  // namespace poptorch::frontend
