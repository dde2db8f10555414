// One operator call on its way through the dispatcher's handler, and the parts of the handler that
// are files of their own.
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

// A value that torch asks for on the host, and that is not known while the model is traced.
class ValueNeededError : public support::UserError {
 public:
  using UserError::UserError;
};

using Results = std::vector<c10::IValue>;
using Handler = std::function<Results(const Handled&)>;

// The handler of an operator that is no computation (item, equal, detach_, ...); nullptr: none.
const Handler* special_handler(const OpInfo& info);
// What concerns the device an operator was asked for. Wherever that is, the IPU is meant.
void settle_device(const Handled& handled);

// The cure, where what is not known of these follows from buffers alone; otherwise nothing.
std::string buffers_behind(Tracer& tracer, c10::ArrayRef<c10::IValue> wanted);
// DynamicShapeError for an operator whose result has a shape that depends on the values of
// `wanted`.
[[noreturn]] void refuse_dynamic_shape(const Handled& handled, const c10::IValue& wanted);
// What torch makes of it on the host, where all the tensors that it takes have values known while
// the model is traced. Nothing otherwise.
std::optional<Results> results_on_host(const Handled& handled);
// The same as constants of the device.
std::optional<Results> by_known_values(const Handled& handled);
// x[mask] of a known mask takes the places where it is true, whose number is known then.
void settle_masks(Tracer& tracer, const OpInfo& info, Results& arguments);

// torch.cov, without torch's look at the weights, of which negative ones are errors.
Results covariance(const Handled& handled);
// repeat_interleave of counts alone: the number of each place of the result, of a known size.
Results repeated(const Handled& handled);

// torch.linalg.lstsq, of matrices of full rank.
Results least_squares(const Handled& handled);
// What is computed of sparse tensors of the host and others of the device: products by the numbers
// of rows, all else of dense constants. Nothing where none is sparse.
std::optional<Results> by_sparse_constants(Tracer& tracer, const c10::OperatorHandle& op,
                                           const OpInfo& info,
                                           c10::ArrayRef<c10::IValue> arguments);

// Results that share memory with an argument.
Results view(const Handled& handled);
// The operator without its underscore, when it is a view of its first argument: unsqueeze_ and its
// like, after which the tensor is a view of what it was.
std::optional<c10::OperatorHandle> view_of_place(const c10::OperatorHandle& op, const OpInfo& info);
Results view_in_place(const Handled& handled, const c10::OperatorHandle& functional);

}  // namespace poptorch::frontend
