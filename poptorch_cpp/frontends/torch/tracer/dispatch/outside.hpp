// Tensors that forward has kept and something uses when its trace is over: they have no values.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

#include "support/error.hpp"

namespace poptorch::frontend {

// UserError when an op, which no trace records, takes such a tensor.
void refuse_outside(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Throws the error in the language of whoever called the op; torch makes its own of ours.
void set_raise_outside(std::function<void(const support::Error&)> raise);

}  // namespace poptorch::frontend
