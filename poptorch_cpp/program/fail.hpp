// The internal error that reports an ill-formed program.
#pragma once

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::program {

template <typename... Args>
[[noreturn]] void fail(const Args&... args) {
  throw support::InternalError(support::str("[program] ", args...));
}

}  // namespace poptorch::program
