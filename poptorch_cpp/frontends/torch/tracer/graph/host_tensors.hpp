// Ordinary tensors of the host while a model is traced: what a program computes of them alone has
// values, which are the model's constants.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/op_facts/op_info.hpp"

namespace poptorch::frontend {

// Lets torch do it, without a part of the trace, where the operator takes tensors, all of them of
// the host, and makes none for the device, as those do that draw random numbers. Known
// values that it writes into a tensor of the host count as such: torch makes tensors of numbers
// that are the trace's.
// False: it does nothing.
bool run_on_host(Tracer& tracer, const c10::OperatorHandle& op, const OpInfo& info,
                 torch::jit::Stack* stack);

// Operators that torch follows the device of no argument for: where none is named, the IPU's.
bool is_factory(const OpInfo& info);

// Host memory that the user asked for on the device; asked once, it is forgotten.
void note_for_device(const at::Tensor& tensor);
bool was_for_device(const at::Tensor& tensor);
void forget_for_device();

// The same memory as a tensor that says it is of the host, which a frozen one does not.
at::Tensor of_cpu(const at::Tensor& tensor);

}  // namespace poptorch::frontend
