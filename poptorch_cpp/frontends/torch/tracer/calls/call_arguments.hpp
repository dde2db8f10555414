// The arguments of a generic ATen op as they come from a text: checked before anything reads them.
#pragma once

#include <ATen/core/function_schema.h>

#include "frontends/torch/tracer/calls/json.hpp"

namespace poptorch::frontend {

// UserError unless `arguments` is a list of one value for each argument of the schema, lists stand
// where lists are taken, and tensors are objects: operands, numbered from 0 in their order, with an
// element type, or tensors without elements by their sizes and type.
void check_arguments(const c10::FunctionSchema& schema, const Json& arguments);

}  // namespace poptorch::frontend
