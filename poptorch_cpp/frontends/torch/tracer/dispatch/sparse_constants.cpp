// Computes operators that take sparse host tensors (from a closure, an attribute or a buffer) and
// tensors of the device. Declared in handled.hpp.
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "frontends/torch/tracer/dispatch/handled.hpp"

namespace poptorch::frontend {
namespace {

using c10::IValue;

// A matrix that stores at most one in kThin of its elements is thin: its products gather and add
// rows by index.
constexpr int64_t kThin = 8;

bool is_sparse(const IValue& argument) {
  return argument.isTensor() && argument.toTensor().defined() &&
         argument.toTensor().layout() != at::kStrided;
}

at::Tensor dense_constant(Tracer& tracer, const at::Tensor& sparse) {
  at::Tensor dense;
  {
    const PauseGuard pause;
    dense = sparse.detach().to_dense();
  }
  return tracer.make_constant(dense);
}

// Returns sparse @ x, where x is a matrix or a vector.
at::Tensor product(Tracer& tracer, const at::Tensor& sparse, const at::Tensor& x) {
  if (sparse.dim() != 2 || sparse._nnz() == 0 || sparse._nnz() * kThin > sparse.numel()) {
    return at::matmul(dense_constant(tracer, sparse), x);
  }
  at::Tensor places, numbers;
  {
    const PauseGuard pause;
    const at::Tensor coo = sparse.detach().to_sparse().coalesce();
    places = coo.indices();
    numbers = coo.values().unsqueeze(1).contiguous();
  }
  const at::Tensor rows = tracer.make_constant(places[0]), from = tracer.make_constant(places[1]);
  const at::Tensor columns = x.dim() == 1 ? x.unsqueeze(1) : x;
  const at::Tensor parts = at::index_select(columns, 0, from).mul(tracer.make_constant(numbers));
  const at::Tensor none = at::zeros({sparse.size(0), columns.size(1)}, parts.options());
  const at::Tensor y = at::index_add(none, 0, rows, parts);
  return x.dim() == 1 ? y.squeeze(1) : y;
}

}  // namespace

std::optional<Results> by_sparse_constants(Tracer& tracer, const c10::OperatorHandle& op,
                                           const OpInfo& info, c10::ArrayRef<IValue> arguments) {
  if (std::none_of(arguments.begin(), arguments.end(), is_sparse)) return std::nullopt;
  tracer.enter_call();
  const std::string& name = info.name;
  const bool adds = name == "aten::addmm" || name == "aten::_sparse_addmm";
  if (name == "aten::mm" || name == "aten::mv" || name == "aten::matmul" ||
      name == "aten::_sparse_mm" || adds) {
    const at::Tensor &left = arguments[adds ? 1 : 0].toTensor(),
                     &right = arguments[adds ? 2 : 1].toTensor();
    at::Tensor y;
    if (is_sparse(left) && right.dim() <= 2) {
      y = product(tracer, left, right);
    } else if (is_sparse(right) && left.dim() == 2) {
      at::Tensor turned;
      {
        const PauseGuard pause;
        turned = right.to_sparse().t();
      }
      y = product(tracer, turned, left.t()).t();
    }
    if (y.defined() && !adds) return Results{y};
    if (y.defined()) {
      const at::Tensor added = arguments[0].toTensor().mul(arguments[3].toScalar());
      return Results{added.add(y.mul(arguments[4].toScalar()))};
    }
  }
  torch::jit::Stack stack;
  for (const IValue& argument : arguments) {
    stack.push_back(is_sparse(argument) ? dense_constant(tracer, argument.toTensor()) : argument);
  }
  op.callBoxed(stack);
  return stack;
}

}  // namespace poptorch::frontend
