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
// false. All tensors that the operator takes must be host tensors, and it must take at least one.
// It must not make tensors for the device, as factories and random operators do. Known values that
// it writes into a host tensor count as host tensors: torch makes tensors from the trace's numbers
// this way.
bool run_on_host(Tracer& tracer, const c10::OperatorHandle& op, const OpInfo& info,
                 torch::jit::Stack* stack);

// Returns true for operators that create a tensor, on the IPU even if their `device` argument is
// absent or names the host.
bool is_factory(const OpInfo& info);

// Track host memory that the user requested on the device. was_for_device() forgets the entry.
void note_for_device(const at::Tensor& tensor);
bool was_for_device(const at::Tensor& tensor);
void forget_for_device();

// Returns an alias of `tensor` that reports the host as its device; state and frozen tensors report
// the IPU during a trace.
at::Tensor of_cpu(const at::Tensor& tensor);

}  // namespace poptorch::frontend
