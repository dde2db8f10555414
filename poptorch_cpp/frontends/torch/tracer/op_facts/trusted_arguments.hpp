// Operators whose CPU kernels take an argument's values on trust and read past the end of memory
// when they are wrong.
#pragma once

#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace poptorch::frontend {

// UserError where the arguments of `op` ("aten::ctc_loss"), on `stack`, would be misread.
void check_trusted_arguments(const std::string& op, const torch::jit::Stack& stack);

// Makes zeros that stand in for the operands of such an operator ones that fit together.
void fit_stand_ins(const std::string& schema, std::vector<at::Tensor>& operands);

}  // namespace poptorch::frontend
