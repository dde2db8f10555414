// Provides the foreign kernels `aten` and `aten_vjp`: torch's own kernels for operators without a
// row.
#pragma once

namespace poptorch::frontend {

// Registers the kernels. Idempotent. A process must call it before it binds programs with generic
// ops.
void register_aten_provider();

}  // namespace poptorch::frontend
