// Makes one node of nodes that a kernel computes together.
#pragma once

#include <vector>

#include "emulator/bind/kernel_maker.hpp"
#include "emulator/bind/plan.hpp"

namespace poptorch::emulator {

// Counts the accesses of each storage by all nodes.
Table<StorageId, int> count_accesses(const Plan& plan);

// Joins chains and ops that have kernels. What only they access is held from then on; `uses` are
// count_accesses().
RowsNode make_rows_node(Plan& plan, const KernelMaker& maker, int64_t rows,
                        std::vector<Node> members, const Table<StorageId, int>& uses);

// Returns whether the node's kernel is a fast one.
bool has_fast_kernel(const KernelCall& call);

}  // namespace poptorch::emulator
