// Tensors in a channel between IPUs or in a stash keep the layout in which they were made. So a
// convolution needs no reorders at a stage boundary.
#pragma once

#include <vector>

#include "emulator/bind/plan.hpp"
#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

// Returns the kernel row that chooses the layouts of the op's operands; nullptr if all are plain.
const KernelRow* choosing_row(const Plan& plan, const OpNode& node);

class CarriedLayouts {
 public:
  // Estimates the layouts that values will have. The estimate affects speed, never values.
  explicit CarriedLayouts(const Plan& plan);

  // Returns the layout of the tensors that the node sends, receives, stashes or restores; plain for
  // other nodes.
  Layout of(const Node& node) const;

 private:
  void estimate(const std::vector<Node>& block);
  void estimate(const Node& node);
  void estimate(const OpNode& op);
  void note(std::span<const ValueId> ids, const std::vector<Layout>& layouts);

  const Plan& plan_;
  std::vector<Layout> channels_, stashes_;  // by number
  Table<StorageId, Layout> storages_;       // estimated so far
};

}  // namespace poptorch::emulator
