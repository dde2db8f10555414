// Describes one operator call that the dispatcher's handler processes, and declares the parts of
// the handler that have separate files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontends/torch/tracer/graph/torch_call.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/op_facts/op_info.hpp"
#include "support/error.hpp"

namespace poptorch::frontend {

struct Handled {
  Tracer& tracer;
  const c10::OperatorHandle& op;
  const OpInfo& info;
  c10::ArrayRef<c10::IValue> arguments;
  TorchCall& call;
};

// Reports a value that torch needs on the host and that is not known while the model is traced.
class ValueNeededError : public support::UserError {
 public:
  using UserError::UserError;
};

using Results = std::vector<c10::IValue>;
using Handler = std::function<Results(const Handled&)>;

// Returns the handler of an operator that needs special treatment (item, equal, detach_, cov, ...),
// or nullptr if it does not.
const Handler* special_handler(const OpInfo& info);
// Returns what composes an LSTM or GRU cell, or nullptr for other operators. It returns nullopt if
// the shapes do not fit.
using CellComposer = std::function<std::optional<Results>(const Handled&)>;
const CellComposer* recurrent_cell(const OpInfo& info);
// Warns if the call of a factory names the CPU or does not name a device. The tracer uses the IPU
// for every device that a call names.
void settle_device(const Handled& handled);

// Returns advice for an error message if the unknown values among `wanted` follow from buffers and
// constants alone; otherwise an empty string.
std::string buffers_behind(Tracer& tracer, c10::ArrayRef<c10::IValue> wanted);
// Throws DynamicShapeError for an operator whose result has a shape that depends on the values of
// `wanted`.
[[noreturn]] void refuse_dynamic_shape(const Handled& handled, const c10::IValue& wanted);
// Runs the operator on the host and returns its results, if the values of all its tensors are known
// while the model is traced. Returns nullopt otherwise, and for operators that draw random numbers
// or write.
std::optional<Results> results_on_host(const Handled& handled);
// Returns the results of results_on_host() as constants of the device.
std::optional<Results> by_known_values(const Handled& handled);
// Replaces known masks in x[mask] by the indices of their true elements, whose number is then
// known. Leaves a mask of a write for which a choice per element suffices.
void settle_masks(Tracer& tracer, const OpInfo& info, Results& arguments);

// Computes torch.cov. Does not check the values of the weights; torch raises an error for negative
// ones.
Results covariance(const Handled& handled);
// Computes repeat_interleave of counts alone: each element of the result is the index of the count
// that it belongs to. Throws DynamicShapeError unless the counts are known or the call gives the
// output size.
Results repeated(const Handled& handled);

// Computes torch.linalg.lstsq for matrices of full rank.
Results least_squares(const Handled& handled);
// Computes an operator that takes sparse host tensors, possibly beside tensors of the device.
// Products with a thin matrix gather and add rows by index; all else uses dense constants. Returns
// nullopt if no argument is sparse.
std::optional<Results> by_sparse_constants(Tracer& tracer, const c10::OperatorHandle& op,
                                           const OpInfo& info,
                                           c10::ArrayRef<c10::IValue> arguments);

// Throws UnsupportedError if an argument is a nested tensor, or if the operator makes one.
void refuse_nested(const Handled& handled);
// Throws UserError if the first argument has no dimensions and `dim` is neither 0 nor -1. Rows
// ignore `dim` there.
void check_dims_of_scalar(const Handled& handled);
// Returns the text of an error of torch, with a remedy if a dimension is out of range.
std::string with_remedy(const c10::Error& error);
// Returns the tensor that a call of `to` takes, if it already has the requested type and format. On
// the device all tensors are in one place, so a move to another device returns it too. Returns
// nullopt if the call makes a new tensor.
std::optional<Results> unconverted(const Handled& handled);

// Returns results that share memory with the first argument.
Results view(const Handled& handled);
// Returns the operator without its underscore if that is a view operator, as for unsqueeze_;
// nullopt otherwise. After such an operator the tensor is a view of its previous contents.
std::optional<c10::OperatorHandle> view_of_place(const c10::OperatorHandle& op, const OpInfo& info);
Results view_in_place(const Handled& handled, const c10::OperatorHandle& functional);

}  // namespace poptorch::frontend
