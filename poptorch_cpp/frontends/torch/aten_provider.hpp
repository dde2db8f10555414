// The foreign kernels `aten` and `aten_vjp`: torch's own kernels for operators without a row.
#pragma once

namespace poptorch::frontend {

// Idempotent. A process that runs programs with generic ops calls it once before binding them.
void register_aten_provider();

}  // namespace poptorch::frontend
