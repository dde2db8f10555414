// Also defines the functions of Tracer that concern tensors which outlive the trace.
#include "frontends/torch/tracer/graph/carried_values.hpp"

#include <mutex>
#include <unordered_map>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"

namespace poptorch::frontend {
namespace {

// Gives access to key_set_, which is protected.
struct KeyAccess : c10::TensorImpl {
  static constexpr auto kMember = &KeyAccess::key_set_;
};

struct Carried {
  std::mutex mutex;
  std::vector<WeakTensor> tensors;
};

Carried& carried() {
  static Carried all;
  return all;
}

std::vector<at::Tensor> alive_among(const std::vector<WeakTensor>& tensors) {
  std::vector<at::Tensor> alive;
  for (const WeakTensor& weak : tensors) {
    if (auto impl = weak.lock()) alive.emplace_back(std::move(impl));
  }
  return alive;
}

}  // namespace

std::vector<at::Tensor> MadeTensors::alive() const { return alive_among(made_); }

void carry_over(const at::Tensor& tensor, const c10::Storage& memory) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_allow_tensor_metadata_change(true);
  impl->set_storage_and_dtype(memory, tensor.dtype());
  impl->*KeyAccess::kMember = impl->key_set().remove(c10::DispatchKey::DeferredInit);
  report_device(tensor, c10::kCPU);
  Carried& all = carried();
  const std::lock_guard lock(all.mutex);
  all.tensors.emplace_back(tensor.getIntrusivePtr());
}

std::vector<at::Tensor> carried_tensors() {
  Carried& all = carried();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.tensors, [](const WeakTensor& weak) { return weak.expired(); });
  return alive_among(all.tensors);
}

void Tracer::carry_known_values() {
  std::unordered_map<const c10::StorageImpl*, c10::Storage> memories;
  for (const at::Tensor& tensor : made_.alive()) {
    if (!is_dataless(tensor) || tensor.requires_grad()) continue;
    const Root* root = memory_.find(tensor);
    const ir::Literal* literal = root ? known_values_.of(root->value()) : nullptr;
    if (!literal) continue;
    c10::Storage& memory = memories[tensor.storage().unsafeGetStorageImpl()];
    if (!memory) {
      const PauseGuard pause;
      memory = tensor_of(*literal).to(tensor.scalar_type()).storage();
    }
    carry_over(tensor, memory);
  }
}

}  // namespace poptorch::frontend
