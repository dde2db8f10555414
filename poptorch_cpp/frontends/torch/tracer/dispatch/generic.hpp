// Handles operators without a row: the `aten` op runs torch's kernel. Operators that take no tensor
// with elements become constants.
#pragma once

#include <optional>

#include "frontends/torch/tracer/graph/torch_call.hpp"
#include "frontends/torch/tracer/op_facts/op_info.hpp"

namespace poptorch::frontend {

// Emits the `aten` op and returns its results. Throws UnsupportedError if the operator draws random
// numbers, an argument has no text, torch has no CPU kernel, or the device cannot hold a result.
std::vector<TensorValue> emit_generic(Tracer& tracer, const c10::OperatorHandle& op,
                                      const OpInfo& info, c10::ArrayRef<c10::IValue> arguments,
                                      TorchCall& call);

// Returns values that have only the shapes and types of the operator's results. Returns nullopt if
// these cannot be inferred.
std::optional<std::vector<TensorValue>> stand_ins(const c10::OperatorHandle& op, const OpInfo& info,
                                                  c10::ArrayRef<c10::IValue> arguments,
                                                  TorchCall& call);

}  // namespace poptorch::frontend
