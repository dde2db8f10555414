// Conversion of tensors between layouts.
#pragma once

#include <memory>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

void from_plain(const Layout& layout, const ir::Type& type, const std::byte* plain, std::byte* to);
void to_plain(const Layout& layout, const ir::Type& type, const std::byte* from, std::byte* plain);

// Copies buffer 0, which has the other layout, to buffer 1 in layout `to`.
std::unique_ptr<BoundKernel> bind_reorder(const ir::Type& type, const Layout& to);

}  // namespace poptorch::emulator
