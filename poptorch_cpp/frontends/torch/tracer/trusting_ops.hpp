// Operators whose CPU kernels take an argument's values on trust and read past the end of memory
// when they are wrong.
#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace poptorch::frontend {

// UserError where the arguments of `op` ("aten::ctc_loss"), on `stack`, would be misread.
void check_trusted_arguments(const std::string& op, const torch::jit::Stack& stack);

}  // namespace poptorch::frontend
