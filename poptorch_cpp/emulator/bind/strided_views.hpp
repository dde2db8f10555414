// Finds ops that only move elements whose result need not be stored: a slice of neighbouring
// elements is a part of its operand's memory. Chains, and kernels whose row says so, read any other
// slice, broadcast or transpose by its strides.
#pragma once

#include <unordered_map>

#include "emulator/bind/plan.hpp"

namespace poptorch::emulator {

class StridedViews {
 public:
  // `plan` has values, but no nodes yet.
  explicit StridedViews(const Plan& plan);

  // Returns whether the instruction may become a view of operand 0, as far as its readers and the
  // layouts of its operand are concerned.
  bool may_be_view(const program::Instruction& instruction) const;

  // Makes the result of such an instruction a view of its operand. Returns false, and changes
  // nothing, if its elements do not have strides, or if reading them so would be slow.
  bool make_view(const program::Instruction& instruction, ValueTable& values) const;

  // Returns the results of the views that read the tensor.
  std::vector<program::TensorId> views_of(program::TensorId id) const;

 private:
  using Readers = std::vector<const program::Instruction*>;

  void collect(const std::vector<program::Instruction>& block);
  bool is_read_by_strides(program::TensorId id) const;
  size_t ops_reading(program::TensorId id) const;
  bool chooses_layout(const program::Instruction& instruction) const;
  bool is_image(program::TensorId id, int ops = kMostOps) const;

  // The most element-wise ops between an image and the op that chose its layout.
  static constexpr int kMostOps = 6;

  const Plan& plan_;
  std::unordered_map<program::TensorId, Readers> readers_;                     // look-up only
  std::unordered_map<program::TensorId, const program::Instruction*> makers_;  // look-up only
  bool has_layouts_ = false;  // some op wants a layout for images
};

}  // namespace poptorch::emulator
