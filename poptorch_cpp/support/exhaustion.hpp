// Turns exhausted memory into a UserError.
#pragma once

#include <new>
#include <stdexcept>

#include "support/error.hpp"

namespace poptorch::support {

// Calls `work`. Throws UserError if the standard library cannot allocate what the program needs.
template <typename Work>
auto refusing_exhaustion(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw UserError(
      "[memory] this host does not have the memory that the program needs. Make tensors and "
      "batches smaller, or use fewer replicas and iterations.");
}

}  // namespace poptorch::support
