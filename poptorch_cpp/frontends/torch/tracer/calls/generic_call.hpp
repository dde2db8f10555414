// Represents a call of a torch operator as data: the schema, and the arguments as text in which
// numbers stand for the operands. The tracer writes it into the IR's `aten` op; the provider runs
// it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "frontends/torch/tracer/calls/json.hpp"

namespace poptorch::frontend {

class GenericCall {
 public:
  // Encodes the arguments and appends their tensors with elements to `operands`, in order. Throws
  // UnsupportedError for arguments that have no text. `in_f32` passes halves to torch's kernel as
  // float32.
  static GenericCall of(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                        std::vector<at::Tensor>& operands, bool in_f32 = false);
  // Decodes the attributes of an `aten` op. Throws UserError if torch does not have the operator,
  // or a program may not name it (purity.hpp). Also throws it if the arguments do not fit the
  // operator, or none of them is a tensor with elements.
  GenericCall(const std::string& schema, const std::string& arguments);

  std::string schema() const;  // "aten::cross.default"
  std::string arguments() const { return json_text(arguments_); }
  size_t operand_count() const { return dtypes_.size(); }

  // Runs the operator on `operands` (of narrowed types) with torch's kernels. Returns the new
  // values of the written arguments if there are any, else the results, flat. Does not change
  // `operands`.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& operands) const;
  // Returns gradients of the operands numbered in `needed`. `result_gradients` are those of run()'s
  // results numbered in `given`. An undefined gradient means that nothing depends on the operand.
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& operands,
                                    const std::vector<at::Tensor>& result_gradients,
                                    const std::vector<int64_t>& given,
                                    const std::vector<int64_t>& needed) const;

 private:
  GenericCall(c10::OperatorHandle op, Json arguments);
  // Requires `operands` in dtypes_. The operator writes clones of the written arguments.
  std::vector<at::Tensor> invoke(std::vector<at::Tensor> operands) const;
  std::vector<at::Tensor> widened(const std::vector<at::Tensor>& operands) const;

  c10::OperatorHandle op_;
  Json arguments_;
  std::vector<c10::ScalarType> dtypes_;  // of the operands, as torch's kernel receives them
  std::vector<size_t> writes_;           // numbers of the written arguments
};

}  // namespace poptorch::frontend
