// Implements host_tensors.hpp: an allocator in front of torch's, which only takes notes.
#include "frontends/torch/tracer/host_tensors.hpp"

#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <unordered_set>

#include "frontends/torch/tracer/types.hpp"

namespace poptorch::frontend {
namespace {

thread_local bool watching = false;
thread_local std::unordered_set<const void*> noted, for_device;

class NotingAllocator final : public c10::Allocator {
 public:
  explicit NotingAllocator(c10::Allocator* base) : base_(base) {}
  c10::Allocator* base() const { return base_; }

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = base_->allocate(bytes);
    if (watching) noted.insert(data.get());
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return base_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    base_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* base_;
};

// Stays in front from the first trace on: storages keep a pointer to the allocator that made them.
void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    static NotingAllocator allocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(&allocator);
  });
}

}  // namespace

HostTensorWatch::HostTensorWatch() {
  install();
  noted.clear();
  for_device.clear();
  watching = true;
}

HostTensorWatch::~HostTensorWatch() {
  watching = false;
  noted.clear();
  for_device.clear();
}

UnwatchedRegion::UnwatchedRegion() : before_(watching) { watching = false; }
UnwatchedRegion::~UnwatchedRegion() { watching = before_; }

bool made_in_forward(const at::Tensor& tensor) {
  return tensor.dim() > 0 && noted.contains(tensor.storage().data());
}

void note_for_device(const at::Tensor& tensor) { for_device.insert(tensor.storage().data()); }

bool was_for_device(const at::Tensor& tensor) {
  return for_device.erase(tensor.storage().data()) > 0;
}

void accept_host_tensor(const at::Tensor& tensor) {
  if (!is_dataless(tensor)) noted.erase(tensor.storage().data());
}

}  // namespace poptorch::frontend
