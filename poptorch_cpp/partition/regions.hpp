// Finds the IPUs of ops that run graphs (repeat, if), which may work on several: where those graphs
// use the op's operands, and where they leave its results.
#pragma once

#include <set>
#include <unordered_map>

#include "ir/module.hpp"

namespace poptorch::partition {

// Caches its answers: the graphs that ops run must not change while this lives. Without the cache,
// each op would walk the graphs nested in its graphs again.
class Regions {
 public:
  // Returns the IPU on which `op`, itself on `own`, uses operand `index`. For an op that runs
  // graphs, it is that of the first use in them, or `own` if they name none.
  int operand_ipu(const ir::Op& op, size_t index, int own) const;
  // Returns the IPU on which result `index` is. A value that a repeat carries stays where its body
  // takes it.
  int result_ipu(const ir::Op& op, size_t index, int own) const;

 private:
  using Seen = std::set<const ir::Op*>;
  using Known = std::unordered_map<const ir::Value*, int>;  // look-up only

  int first_use(const ir::Value& value) const;
  int find_first_use(const ir::Value& value, Seen& seen) const;
  int home_of(const ir::Value& value, int own) const;
  int find_home(const ir::Value& value, Seen& seen) const;

  mutable Known first_uses_, homes_;  // of values of bodies
};

}  // namespace poptorch::partition
