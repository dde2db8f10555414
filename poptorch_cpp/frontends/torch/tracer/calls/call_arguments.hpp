// Checks the arguments of a generic ATen op, which come from text, before any code reads them.
#pragma once

#include <ATen/core/function_schema.h>

#include "frontends/torch/tracer/calls/json.hpp"

namespace poptorch::frontend {

// Throws UserError unless `arguments` is a list of one value per argument of the schema. A list may
// only be the value of an argument that takes one. An object must be an operand with its number and
// element type, or a tensor without elements with its sizes and type. Operands are numbered from 0
// in order.
void check_arguments(const c10::FunctionSchema& schema, const Json& arguments);

}  // namespace poptorch::frontend
