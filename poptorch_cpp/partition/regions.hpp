// Ops that run graphs (repeat, if) may work on several IPUs: where those graphs use the op's
// operands, and where they leave its results.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

// The IPU on which `op`, itself on `own`, uses operand `index`: of an op that runs graphs, that of
// its first use in them; `own` where nothing says.
int operand_ipu(const ir::Module& module, const ir::Op& op, size_t index, int own);
// The IPU on which result `index` is. What a repeat carries stays where its body takes it.
int result_ipu(const ir::Module& module, const ir::Op& op, size_t index, int own);

}  // namespace poptorch::partition
