// Moving tensors between layouts.
#pragma once

#include <memory>

#include "emulator/kernel.hpp"

namespace poptorch::emulator {

void from_plain(const Layout& layout, const ir::Type& type, const std::byte* plain, std::byte* to);
void to_plain(const Layout& layout, const ir::Type& type, const std::byte* from, std::byte* plain);

// Buffer 0 in one layout → buffer 1 in the other.
std::unique_ptr<BoundKernel> bind_reorder(const ir::Type& type, const Layout& from,
                                          const Layout& to);

}  // namespace poptorch::emulator
