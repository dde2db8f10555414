// Conversions from types and layouts to the order of dimensions in memory, and to strides.
#pragma once

#include <optional>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

// Returns the dimensions of a type in memory order: [0, 2, 3, 1] for a channels-last [n, c, h, w].
ir::Shape memory_order(int64_t rank, Layout::Kind kind);

// Returns `shape` in memory order.
ir::Shape memory_shape(const ir::Shape& shape, Layout::Kind kind);

// Returns the strides of the elements' row-major numbers, one for every dimension of
// memory_shape(shape, kind).
ir::Shape numbers_in_order(const ir::Shape& shape, Layout::Kind kind);

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

// Chooses the layouts of an op that only moves data of one rank: channels-last if most elements are
// offered so. The values do not depend on the choice.
void choose_moved_layouts(KernelRequest& request);

// Returns the same request for the tensors as they are in memory: shapes and the attributes that
// name or list dimensions are in memory order, and layouts are plain.
KernelRequest in_memory_order(KernelRequest request);

// A bind function for in_memory_order(request), of a row that has choose_moved_layouts.
template <std::unique_ptr<BoundKernel> (*bind)(const KernelRequest&)>
std::unique_ptr<BoundKernel> bind_moved(const KernelRequest& request) {
  return bind(in_memory_order(request));
}

}  // namespace poptorch::emulator
