// Handles operators that need special treatment: reads of values, operators of known arguments,
// comparisons of tensors, constants, detach_, and the devices of factories. Declared in
// handled.hpp.
#include <ATen/ops/_pack_padded_sequence.h>
#include <ATen/ops/_pad_packed_sequence.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor_split.h>

#include <tuple>
#include <unordered_map>

#include "frontends/torch/tracer/dispatch/handled.hpp"
#include "frontends/torch/tracer/graph/host_tensors.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;

[[noreturn]] void refuse_unknown(const Handled& h, c10::ArrayRef<c10::IValue> wanted) {
  throw ValueNeededError(
      str("[", h.info.name, "] the value of a tensor is needed on the host", h.tracer.place(),
          ", but it is not known while the model is traced, as it depends on an input, a "
          "weight or a random number. Keep .item(), `if tensor:` and other reads of "
          "such values out of forward; use torch.where for a choice.",
          buffers_behind(h.tracer, wanted)));
}

Results value_needed(const Handled& h) {
  if (auto known = by_known_values(h)) return *std::move(known);
  if (h.arguments.size() == 1) {  // not a comparison of two tensors
    if (auto answer = h.tracer.expected(h.arguments[0].toTensor())) {
      if (h.op.schema().returns()[0].type()->kind() == c10::TypeKind::BoolType) return {*answer};
      return {at::Scalar(*answer)};
    }
  }
  refuse_unknown(h, h.arguments);
}

at::Tensor needed(const Handled& h, size_t argument) {
  auto known = h.tracer.known(h.arguments[argument].toTensor());
  if (!known) refuse_unknown(h, h.arguments[argument]);
  return *std::move(known);
}

// Splits at places that a tensor holds, which torch reads on the host.
Results split(const Handled& h) {
  const at::Tensor& x = h.arguments[0].toTensor();
  const int64_t axis = h.call.axis(h.arguments[2].toInt(), x.dim());
  const at::Tensor places = needed(h, 1);
  if (places.dim() == 0) return {at::tensor_split(x, places.item<int64_t>(), axis)};
  const auto* first = places.const_data_ptr<int64_t>();
  return {at::tensor_split(x, at::IntArrayRef(first, places.numel()), axis)};
}

// Computes masked_select as x[mask] for a known mask.
Results masked_select(const Handled& h) {
  const auto known = h.tracer.known(h.arguments[1].toTensor());
  if (!known) refuse_dynamic_shape(h, h.arguments[1]);
  const at::Tensor mask = h.tracer.make_constant(*known);
  const auto operands = at::broadcast_tensors({h.arguments[0].toTensor(), mask});
  return {at::index(operands[0], {operands[1]})};
}

// Packs a padded batch of sequences. torch's operator packs the row numbers, and so determines the
// order of the rows. The number of rows of each step is a host tensor, as in torch.
Results packed(const Handled& h) {
  const at::Tensor &x = h.arguments[0].toTensor(), lengths = needed(h, 1);
  at::Tensor order, steps;
  {
    const PauseGuard pause;
    const at::Tensor numbers = at::arange(x.size(0) * x.size(1)).view({x.size(0), x.size(1)});
    std::tie(order, steps) = at::_pack_padded_sequence(numbers, lengths, h.arguments[2].toBool());
  }
  const at::Tensor places = h.tracer.make_constant(order);
  return {at::index_select(x.flatten(0, 1), 0, places), steps};
}

// Unpacks the rows of packed(). torch's operator pads the row numbers, which begin with 1, with 0.
// Row 0 holds the padding value.
Results padded(const Handled& h) {
  const at::Tensor &x = h.arguments[0].toTensor(), steps = needed(h, 1);
  at::Tensor rows, lengths;
  {
    const PauseGuard pause;
    const at::Tensor numbers = at::arange(1, x.size(0) + 1);
    std::tie(rows, lengths) = at::_pad_packed_sequence(numbers, steps, h.arguments[2].toBool(), 0,
                                                       h.arguments[4].toInt());
  }
  auto row = x.sizes().vec();
  row[0] = 1;
  const at::Tensor all = at::cat({at::full(row, h.arguments[3].toScalar(), x.options()), x});
  const at::Tensor places = h.tracer.make_constant(rows.flatten());
  return {at::index_select(all, 0, places).unflatten(0, rows.sizes()),
          h.tracer.make_constant(lengths)};
}

// Makes a sparse tensor from a call without a size. The indices, which must be known, determine the
// size.
Results sparse_of_places(const Handled& h) {
  if (auto results = results_on_host(h)) return *std::move(results);
  const at::Tensor places = needed(h, 0), &numbers = h.arguments[1].toTensor();
  std::vector<int64_t> size;
  {
    const PauseGuard pause;
    const at::Tensor most = at::amax(places, 1).to(at::kLong).add(1);
    size.assign(most.const_data_ptr<int64_t>(), most.const_data_ptr<int64_t>() + most.numel());
  }
  const auto rest = numbers.sizes().slice(1);
  size.insert(size.end(), rest.begin(), rest.end());
  return {at::sparse_coo_tensor(h.arguments[0].toTensor(), numbers, size,
                                numbers.options().layout(at::kSparse))};
}

Results backward_inside(const Handled& h) {
  h.call.unsupported(
      "backward() inside forward is not supported. Return the loss, and the training step adds the "
      "backward pass; torch.autograd.grad gives gradients that forward itself needs.");
}

Results same_tensor(const Handled& h) {
  const at::Tensor &a = h.arguments[0].toTensor(), &b = h.arguments[1].toTensor();
  if (a.sizes() != b.sizes()) return {false};
  if (h.tracer.read(a) == h.tracer.read(b)) return {true};
  // torch::nn::MultiheadAttention tests whether its arguments are the same tensor. It computes the
  // same with both answers.
  if (h.tracer.without_python()) return {false};
  return value_needed(h);
}

// Makes a constant of the graph from the data of torch.tensor(...), which ends with this operator.
Results lifted(const Handled& h) {
  const at::Tensor& tensor = h.arguments[0].toTensor();
  if (is_dataless(tensor)) return {tensor};
  if (!was_for_device(tensor)) {
    h.tracer.warn_once("No device set in torch.tensor(): forcing to IPU");
  }
  return {h.tracer.make_tensor(h.tracer.read(tensor), tensor.scalar_type())};
}

Results cut_in_place(const Handled& h) {
  const at::Tensor& tensor = h.arguments[0].toTensor();
  tensor.unsafeGetTensorImpl()->set_requires_grad(false);
  if (History* history = h.tracer.root_of(tensor).history_of(tensor)) history->remove(tensor);
  return {tensor};
}

Results nothing(const Handled&) { return {}; }

Results unchecked(const Handled& h) {
  h.tracer.warn_once(str(
      "torch.linalg", h.tracer.place(),
      " does not check its matrices on the device: where eager torch raises an error (singular, "
      "not positive definite), the result has nan or infinity"));
  return {};
}

const std::unordered_map<std::string, Handler>& handlers() {
  static const std::unordered_map<std::string, Handler> rows{
      {"aten::item", value_needed},
      {"aten::_local_scalar_dense", value_needed},
      {"aten::is_nonzero", value_needed},
      {"aten::allclose", value_needed},
      {"aten::equal", same_tensor},
      {"aten::_backward", backward_inside},
      {"aten::sparse_coo_tensor.indices", sparse_of_places},
      {"aten::_pack_padded_sequence", packed},
      {"aten::_pad_packed_sequence", padded},
      {"aten::masked_select", masked_select},
      {"aten::tensor_split.tensor_indices_or_sections", split},
      {"aten::cov", covariance},
      {"aten::linalg_lstsq", least_squares},
      {"aten::repeat_interleave.Tensor", repeated},
      {"aten::lift_fresh", lifted},
      {"aten::lift", lifted},
      {"aten::detach_", cut_in_place},
      {"aten::_assert_async", nothing},
      {"aten::_linalg_check_errors", unchecked},
  };
  return rows;
}

}  // namespace

const Handler* special_handler(const OpInfo& info) {
  auto found = handlers().find(info.name);
  if (found == handlers().end()) found = handlers().find(info.name + "." + info.overload);
  return found == handlers().end() ? nullptr : &found->second;
}

void settle_device(const Handled& h) {
  if (!is_factory(h.info)) return;
  const size_t device = h.call.index_of("device");
  // Python fills in the CPU if the user does not name a device.
  const bool on_host = device != Call::kNone &&
                       (h.arguments[device].isNone() || h.arguments[device].toDevice().is_cpu());
  if (on_host) {
    h.tracer.warn_once(str("No device set in torch.", h.info.functional, "(): forcing to IPU"));
  }
}

}  // namespace poptorch::frontend
