// Conversions from types and layouts to the order of dimensions in memory, and to strides.
#pragma once

#include <optional>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

// Returns the dimensions of a type in memory order: [0, 2, 3, 1] for a channels-last [n, c, h, w].
ir::Shape memory_order(int64_t rank, Layout::Kind kind);

// Returns `shape` in memory order.
ir::Shape memory_shape(const ir::Shape& shape, Layout::Kind kind);

// Returns strides in elements of a dense tensor of `shape`, one for every dimension of the *type*.
ir::Shape memory_strides(const ir::Shape& shape, Layout::Kind kind);

// Returns strides that read an operand of layout `kind` for an element-wise space in the result's
// memory order. They have one entry for every dimension of memory_shape(result, result_kind), 0
// where the operand broadcasts.
ir::Shape operand_strides(const ir::Shape& operand, Layout::Kind kind, const ir::Shape& result,
                          Layout::Kind result_kind);

// The same for an operand with the strides `own`, one for each dimension of its type.
ir::Shape strided_operand(const ir::Shape& operand, const ir::Shape& own, const ir::Shape& result,
                          Layout::Kind result_kind);

// Chooses the layouts of element-wise ops and updates, and the engines' fused chains. Everything of
// the result's shape takes the layout of the first such operand that is not plain; the rest becomes
// plain.
void choose_elementwise_layouts(KernelRequest& request);

}  // namespace poptorch::emulator
