// Decides which torch operators a program may name. A program may come from a file, so such an
// operator must be a function of tensors for all arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace poptorch::frontend {

// Throws UserError with the reason if a program may not name `op`. Such operators draw random
// numbers, communicate with other processes, write lists of tensors, or do not check their
// arguments. Others take arguments that are not tensors, numbers or strings, such as storages.
void check_pure(const c10::OperatorHandle& op);

}  // namespace poptorch::frontend
