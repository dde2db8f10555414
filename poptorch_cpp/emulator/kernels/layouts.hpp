// How types and layouts meet: the order of dimensions in memory, and strides through it.
#pragma once

#include <optional>

#include "emulator/kernels/kernel.hpp"

namespace poptorch::emulator {

// The dimensions of a type in the order of memory: [0, 2, 3, 1] for a channels-last [n, c, h, w].
ir::Shape memory_order(int64_t rank, Layout::Kind kind);

// `shape` in the order of memory.
ir::Shape memory_shape(const ir::Shape& shape, Layout::Kind kind);

// Strides in elements of a dense tensor of `shape`, one for every dimension of the *type*.
ir::Shape memory_strides(const ir::Shape& shape, Layout::Kind kind);

// Strides that read an operand held as `kind` for an element-wise space that is the result's
// memory: one for every dimension of memory_shape(result, result_kind), 0 where it broadcasts.
ir::Shape operand_strides(const ir::Shape& operand, Layout::Kind kind, const ir::Shape& result,
                          Layout::Kind result_kind);

// For element-wise ops and updates: takes the layout of the first operand of the result's shape
// that is not plain for everything of that shape; the rest becomes plain. What engines do with
// fused chains, too.
void choose_elementwise_layouts(KernelRequest& request);

}  // namespace poptorch::emulator
