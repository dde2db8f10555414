// Sizes beyond the host are errors of the user's.
#pragma once

#include <new>
#include <stdexcept>

#include "support/error.hpp"

namespace poptorch::support {

// What the standard library throws when a program's sizes are beyond the host.
template <typename Work>
auto refusing_exhaustion(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw UserError(
      "[memory] this host has not the memory that the program needs. Make tensors and batches "
      "smaller, or use fewer replicas and iterations.");
}

}  // namespace poptorch::support
