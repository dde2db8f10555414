// Handles operators whose CPU kernels do not check an argument's values, and read past the end of
// memory if these are wrong.
#pragma once

#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace poptorch::frontend {

// Throws UserError if the arguments of `op` ("aten::ctc_loss"), on `stack`, would make its kernel
// read past the end of memory.
void check_trusted_arguments(const std::string& op, const torch::jit::Stack& stack);

// Makes zeros that stand in for the operands of such an operator consistent with each other.
void fit_stand_ins(const std::string& schema, std::vector<at::Tensor>& operands);

}  // namespace poptorch::frontend
