// Operators without a row: run through torch's own kernel by the `aten` op; factories become
// constants.
#pragma once

#include <optional>

#include "frontends/torch/tracer/graph/torch_call.hpp"
#include "frontends/torch/tracer/op_facts/op_info.hpp"

namespace poptorch::frontend {

// UnsupportedError for operators that draw random numbers, or whose arguments have no text.
std::vector<TensorValue> emit_generic(Tracer& tracer, const c10::OperatorHandle& op,
                                      const OpInfo& info, c10::ArrayRef<c10::IValue> arguments,
                                      TorchCall& call);

// Values like the operator's results, of which only shapes and types are right; nothing where
// these are not known without running it.
std::optional<std::vector<TensorValue>> stand_ins(const c10::OperatorHandle& op, const OpInfo& info,
                                                  c10::ArrayRef<c10::IValue> arguments,
                                                  TorchCall& call);

}  // namespace poptorch::frontend
