// A call of a torch operator as data: its schema and its arguments as text, with tensors replaced
// by operand numbers. The tracer writes it into the IR's `aten` op; the provider runs it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "frontends/torch/tracer/calls/json.hpp"

namespace poptorch::frontend {

class GenericCall {
 public:
  // Takes the arguments apart. Tensors are appended to `operands`, in order. UnsupportedError for
  // arguments that have no text. `in_f32`: torch's kernel gets halves as float32.
  static GenericCall of(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                        std::vector<at::Tensor>& operands, bool in_f32 = false);
  // From the attributes of an `aten` op. UserError where torch has no such operator, or it is not
  // one that a program may name (purity.hpp), or the arguments are not its.
  GenericCall(const std::string& schema, const std::string& arguments);

  std::string schema() const;  // "aten::cross.default"
  std::string arguments() const { return json_text(arguments_); }
  size_t operand_count() const { return dtypes_.size(); }

  // Runs the operator on `operands` (of narrowed types) with torch's own kernels. Gives the written
  // arguments' new values when there are any, else the results, flat. Operands stay as they are.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& operands) const;
  // Gradients of the operands numbered in `needed`, given those of run()'s results numbered in
  // `given`. An undefined gradient means that nothing depends on the operand.
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& operands,
                                    const std::vector<at::Tensor>& result_gradients,
                                    const std::vector<int64_t>& given,
                                    const std::vector<int64_t>& needed) const;

 private:
  GenericCall(c10::OperatorHandle op, Json arguments);
  // `operands` in dtypes_; those in `clones` may be written.
  std::vector<at::Tensor> invoke(std::vector<at::Tensor> operands) const;
  std::vector<at::Tensor> widened(const std::vector<at::Tensor>& operands) const;

  c10::OperatorHandle op_;
  Json arguments_;
  std::vector<c10::ScalarType> dtypes_;  // of the operands, as torch is to have them
  std::vector<size_t> writes_;           // arguments
};

}  // namespace poptorch::frontend
