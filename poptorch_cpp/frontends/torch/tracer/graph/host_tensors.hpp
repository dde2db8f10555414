// Handles ordinary host tensors while a model is traced. Results that a program computes from them
// alone have values and become constants of the model.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/op_facts/op_info.hpp"

namespace poptorch::frontend {

// Lets torch run the operator outside the trace and returns true, or does nothing and returns
// false. All tensors that the operator takes must be host tensors. It must not make tensors for the
// device, as operators do that draw random numbers. Known values that it writes into a host tensor
// count as host tensors: torch makes tensors from the trace's numbers this way.
bool run_on_host(Tracer& tracer, const c10::OperatorHandle& op, const OpInfo& info,
                 torch::jit::Stack* stack);

// Returns true for operators whose device does not follow from an argument: the default is the IPU.
bool is_factory(const OpInfo& info);

// Track host memory that the user requested on the device. was_for_device() forgets the entry.
void note_for_device(const at::Tensor& tensor);
bool was_for_device(const at::Tensor& tensor);
void forget_for_device();

// Returns the same memory as a tensor that reports the host as its device; a frozen tensor does
// not.
at::Tensor of_cpu(const at::Tensor& tensor);

}  // namespace poptorch::frontend
