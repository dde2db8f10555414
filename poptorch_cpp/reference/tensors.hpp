// A call's operands and results as doubles that a kernel may index repeatedly. Operands are
// converted on first use; results are stored when the kernel is done.
#pragma once

#include <optional>
#include <vector>

#include "reference/kernels.hpp"

namespace poptorch::reference {

class Tensors : public Args {
 public:
  explicit Tensors(const KernelCall& call)
      : Args(call), results_(call.outputs.size()), operands_(call.inputs.size()) {}

  const Doubles& in(size_t i) {
    if (!operands_[i]) operands_[i] = Args::in(i);
    return *operands_[i];
  }
  Doubles& out(size_t i = 0) {  // zeros at first
    if (!results_[i]) results_[i] = Doubles(static_cast<size_t>(result(i).elements()), 0.0);
    return *results_[i];
  }
  double scalar(size_t i) { return in(i)[0]; }
  void store() {
    for (size_t i = 0; i < results_.size(); ++i) {
      if (results_[i]) Args::out(i, *results_[i]);
    }
  }

 private:
  std::vector<std::optional<Doubles>> results_, operands_;
};

// Adapts a kernel over Tensors to a row of the table.
template <void (*kernel)(Tensors&)>
void with_tensors(const KernelCall& call) {
  Tensors tensors(call);
  kernel(tensors);
  tensors.store();
}

// Returns the flat index, in a tensor of shape `from`, that each element of its broadcast to `to`
// reads.
inline std::vector<int64_t> broadcast_indices(const Shape& from, const Shape& to) {
  std::vector<int64_t> out(static_cast<size_t>(ir::element_count(to)));
  for_each_offset(to, broadcast_strides(from, to),
                  [&](int64_t i, int64_t offset) { out[i] = offset; });
  return out;
}

}  // namespace poptorch::reference
