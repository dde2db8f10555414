// The functions that all_kernels() calls, and those that kernel families share.
#pragma once

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

void add_elementwise_kernels(KernelTable& table);
void add_matmul_kernels(KernelTable& table);
void add_conv_kernels(KernelTable& table);
void add_random_kernels(KernelTable& table);
void add_move_kernels(KernelTable& table);
void add_embedding_kernels(KernelTable& table);
void add_index_kernels(KernelTable& table);
void add_point_kernels(KernelTable& table);
void add_pad_kernels(KernelTable& table);

// Returns `kernel` with its buffers picked from KernelArgs: buffer i is args.buffers[from[i]], and
// absent when from[i] is -1.
std::unique_ptr<BoundKernel> rewire(std::unique_ptr<BoundKernel> kernel, std::vector<int> from);

}  // namespace poptorch::emulator
