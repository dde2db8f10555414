// Ops that run graphs (repeat, if) may work on several IPUs: where those graphs use the op's
// operands, and where they leave its results.
#pragma once

#include <set>
#include <unordered_map>

#include "ir/module.hpp"

namespace poptorch::partition {

// Answers are kept: the graphs that ops run must not change while this lives. Graphs in graphs
// would otherwise be walked again for each of theirs.
class Regions {
 public:
  // The IPU on which `op`, itself on `own`, uses operand `index`: of an op that runs graphs, that
  // of its first use in them; `own` where nothing says.
  int operand_ipu(const ir::Op& op, size_t index, int own) const;
  // The IPU on which result `index` is. What a repeat carries stays where its body takes it.
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
