#include "frontends/torch/tracer/op_facts/trusted_arguments.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;

std::vector<int64_t> numbers(const c10::IValue& value) {
  if (value.isIntList()) return value.toIntVector();
  const at::Tensor list = value.toTensor().to(at::kLong).contiguous();
  return {list.const_data_ptr<int64_t>(), list.const_data_ptr<int64_t>() + list.numel()};
}

// Checks the targets of ctc_loss(log_probs [T, N, C] or [T, C], targets [N, S] or [sum of lengths],
// input_lengths, target_lengths, ...). The kernel does not read the padding of a row of targets.
void check_ctc_targets(const torch::jit::Stack& stack) {
  const at::Tensor targets = stack[1].toTensor().to(at::kLong).contiguous();
  const int64_t classes = stack[0].toTensor().size(-1);
  const bool is_padded = targets.dim() == 2;
  const int64_t width = is_padded ? targets.size(1) : 0;
  const auto lengths = numbers(stack[3]);
  const int64_t* target = targets.const_data_ptr<int64_t>();
  int64_t first = 0;
  for (size_t row = 0; row < lengths.size(); ++row) {
    if (is_padded) first = static_cast<int64_t>(row) * width;
    for (int64_t i = first; i < first + lengths[row] && i < targets.numel(); ++i) {
      if (target[i] >= 0 && target[i] < classes) continue;
      throw support::UserError(str("[ctc_loss] target ", target[i], " of sequence ", row,
                                   " is not in [0, ", classes, "). Correct the targets."));
    }
    first += lengths[row];
  }
}

}  // namespace

void check_trusted_arguments(const std::string& op, const torch::jit::Stack& stack) {
  if (op == "aten::ctc_loss" || op == "aten::_ctc_loss") check_ctc_targets(stack);
}

// Makes the lengths of concatenated targets add up to the number of targets, and sets the input
// lengths to the number of steps.
void fit_stand_ins(const std::string& schema, std::vector<at::Tensor>& operands) {
  if (schema != "aten::ctc_loss.Tensor" || operands[1].dim() != 1) return;
  operands[2].fill_(operands[0].size(0));
  operands[3].view({-1}).narrow(0, 0, 1).fill_(operands[1].numel());
}

}  // namespace poptorch::frontend
