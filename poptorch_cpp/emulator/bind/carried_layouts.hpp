// What waits between nodes, in a channel between IPUs or in a stash, keeps the layout in which its
// maker leaves it, so that crossing a stage costs a convolution no reorders.
#pragma once

#include <vector>

#include "emulator/bind/plan.hpp"

namespace poptorch::emulator {

// The kernel row that chooses the layouts of the node's operands; nullptr when they are plain.
const KernelRow* choosing_row(const Plan& plan, const Node& node);

class CarriedLayouts {
 public:
  // From an estimate of the layouts that values will have: any choice is right, a good one is fast.
  explicit CarriedLayouts(const Plan& plan);

  // Of the tensors that the node sends, receives, stashes or restores; plain for other nodes.
  Layout of(const Node& node) const;

 private:
  void estimate(const std::vector<Node>& block);
  void estimate(const Node& node);
  void note(const std::vector<ValueId>& ids, const std::vector<Layout>& layouts);

  const Plan& plan_;
  std::vector<Layout> channels_, stashes_;  // by number
  std::vector<Layout> storages_;            // as estimated so far
};

}  // namespace poptorch::emulator
