// Which operators of torch a program may name. A program may come from a file: what it names must
// be a function of tensors, whatever its arguments say.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace poptorch::frontend {

// UserError, with what is wrong with it, for an operator that draws random numbers, talks to other
// processes, or takes anything but tensors, numbers and texts, such as storages.
void check_pure(const c10::OperatorHandle& op);

}  // namespace poptorch::frontend
