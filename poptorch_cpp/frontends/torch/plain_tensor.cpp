// Decides by the tensor's dispatch keys, as torch itself does, then by its device and memory.
#include "frontends/torch/plain_tensor.hpp"

#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using c10::DispatchKey;
using support::str;

constexpr c10::DispatchKeySet kPlainKeys{DispatchKey::CPU,         DispatchKey::AutogradCPU,
                                         DispatchKey::AutocastCPU, DispatchKey::ADInplaceOrView,
                                         DispatchKey::Conjugate,   DispatchKey::Negative};

bool has_only_plain_keys(const at::Tensor& tensor) {
  return (tensor.key_set().raw_repr() & ~kPlainKeys.raw_repr()) == 0;
}

bool has_memory(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  int64_t last = tensor.storage_offset();
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const c10::Storage& storage = tensor.storage();
  return storage.data() &&
         static_cast<uint64_t>(last + 1) * tensor.element_size() <= storage.nbytes();
}

std::string layout_name(c10::Layout layout) {
  static constexpr std::pair<c10::Layout, const char*> kNames[] = {
      {c10::kSparse, "sparse_coo"},    {c10::kSparseCsr, "sparse_csr"},
      {c10::kSparseCsc, "sparse_csc"}, {c10::kSparseBsr, "sparse_bsr"},
      {c10::kSparseBsc, "sparse_bsc"}, {c10::kMkldnn, "_mkldnn"}};
  for (const auto& [known, name] : kNames) {
    if (known == layout) return str("torch.", name);
  }
  return "of an unknown kind";
}

bool belongs_to_transform(c10::DispatchKeySet keys) {
  return keys.has_any(c10::DispatchKeySet{DispatchKey::FuncTorchBatched,
                                          DispatchKey::FuncTorchGradWrapper, DispatchKey::Batched,
                                          DispatchKey::FuncTorchBatchedDecomposition});
}

NotPlain by_keys(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has(DispatchKey::DeferredInit)) {  // the tracer's key
    return {"is a tensor of a model's forward, where it has no values",
            "the result of the wrapper's call"};
  }
  if (keys.has(DispatchKey::NestedTensor)) {
    return {"is a nested tensor", "torch.nested.to_padded_tensor(...)"};
  }
  if (keys.has(DispatchKey::Python)) {
    return {"is of a subclass that dispatches operators itself, such as a FakeTensor",
            "a plain torch.Tensor that holds the values"};
  }
  if (belongs_to_transform(keys)) {
    return {"belongs to a transform of torch.func, such as vmap or grad",
            "the result of torch.func, after the transform has ended"};
  }
  if (keys.has(DispatchKey::Functionalize)) {
    return {"is a functional tensor", "a plain torch.Tensor that holds the values"};
  }
  if (keys.has(DispatchKey::ZeroTensor)) {
    return {"is a zero tensor without memory", "torch.zeros_like(...)"};
  }
  if (tensor.is_quantized()) return {"is a quantised tensor", ".dequantize()"};
  if (tensor.layout() != c10::kStrided) {
    return {str("is a tensor of layout ", layout_name(tensor.layout())), ".to_dense()"};
  }
  return {str("is a tensor of device ", tensor.device().str()), ".cpu()"};
}

}  // namespace

NotPlain why_not_plain(const at::Tensor& tensor) {
  if (!has_only_plain_keys(tensor)) return by_keys(tensor);
  if (!tensor.device().is_cpu())
    return {str("is a tensor of device ", tensor.device().str()), ".cpu()"};
  if (!tensor.has_storage() || !has_memory(tensor)) {
    return {str("has no memory for its ", tensor.numel(),
                " elements: its storage was made smaller or removed"),
            "a tensor that holds its values"};
  }
  return {};
}

}  // namespace poptorch::frontend
