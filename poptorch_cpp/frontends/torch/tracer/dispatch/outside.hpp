// Refuses tensors that forward kept and a program uses after the trace: they have no values.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

#include "support/error.hpp"

namespace poptorch::frontend {

// Throws UserError if an op that no trace records takes such a tensor.
void refuse_outside(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Sets the function that throws the error in the language of the op's caller. torch would replace a
// C++ exception by its own.
void set_raise_outside(std::function<void(const support::Error&)> raise);

}  // namespace poptorch::frontend
