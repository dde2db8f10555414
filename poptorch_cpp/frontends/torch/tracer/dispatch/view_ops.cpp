// Handles views: torch makes them, and the tracer records how their values follow from the base's.
#include <ATen/core/grad_mode.h>

#include "frontends/torch/tracer/dispatch/handled.hpp"
#include "frontends/torch/tracer/dispatch/views.hpp"
#include "frontends/torch/tracer/values/types.hpp"

namespace poptorch::frontend {
namespace {

bool is_differentiable(c10::ScalarType dtype) {
  return c10::isFloatingType(dtype) || c10::isComplexType(dtype);
}

at::Tensor adopt_view(const Handled& h, const at::Tensor& base, const at::Tensor& result,
                      int64_t index, int64_t& position) {
  if (result.numel() == 0) return h.tracer.make_empty(result.sizes().vec(), result.scalar_type());
  Root& root = h.tracer.root_of(base);
  const Geometry geometry = Geometry::of(result);
  h.tracer.enter_module_of(root);
  if (auto link = link_of_view(h.info.name, h.call, base, result, index, position)) {
    root.add_view(geometry, Geometry::of(base), std::move(link));
  } else if (base.scalar_type() != result.scalar_type()) {
    h.call.unsupported(
        "the bytes of a tensor as numbers of another dtype are not supported. Convert the numbers "
        "with to(dtype), or make such a view on the host and pass it as an input.");
  } else if (!root.knows(geometry) && !root.add_strided_view(geometry, root.geometry()) &&
             !root.add_strided_view(geometry, Geometry::of(base))) {
    h.call.unsupported("a view of this kind is not supported. Use a copy: reshape, clone or to.");
  }
  report_device(result, ipu_device());
  h.tracer.note_made(result);
  const bool follows = at::GradMode::is_enabled() && h.info.name != "aten::detach" &&
                       is_differentiable(result.scalar_type());
  // Reads the view now, so that its ops have the user's line of this view.
  if (!follows) {
    root.read(h.tracer.cursor(), geometry);
    return result;
  }
  History& followed = root.own_history_of(base);
  if (h.info.is_untracked_view) {
    root.read(h.tracer.cursor(), geometry, root.fork_history(h.tracer.cursor(), followed, result));
  } else {
    root.read(h.tracer.cursor(), geometry, followed);
    followed.add(result);
  }
  result.unsafeGetTensorImpl()->set_requires_grad(base.requires_grad());
  return result;
}

}  // namespace

Results view(const Handled& h) {
  const at::Tensor base = h.arguments[0].toTensor();
  h.tracer.root_of(base);
  torch::jit::Stack stack(h.arguments.begin(), h.arguments.end());
  {
    PauseGuard pause;
    h.op.callBoxed(stack);
  }
  int64_t position = 0;
  if (stack[0].isTensor()) return {adopt_view(h, base, stack[0].toTensor(), 0, position)};
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : stack[0].toTensorVector()) {
    parts.push_back(adopt_view(h, base, part, static_cast<int64_t>(parts.size()), position));
  }
  return {c10::IValue(parts)};
}

std::optional<c10::OperatorHandle> view_of_place(const c10::OperatorHandle& op,
                                                 const OpInfo& info) {
  if (!op.hasTag(at::Tag::inplace_view)) return std::nullopt;
  for (const std::string& overload : {info.overload, std::string("int")}) {
    const auto found =
        c10::Dispatcher::singleton().findSchema({"aten::" + info.functional, overload});
    if (found && info_of(*found).is_view) return found;
  }
  return std::nullopt;
}

Results view_in_place(const Handled& h, const c10::OperatorHandle& functional) {
  const at::Tensor& tensor = h.arguments[0].toTensor();
  h.tracer.root_of(tensor);
  Results arguments = h.arguments.vec();
  {
    PauseGuard pause;
    const at::Tensor before = tensor.alias();
    report_device(before, tensor.device());
    before.unsafeGetTensorImpl()->set_requires_grad(tensor.requires_grad());
    arguments[0] = before;
  }
  TorchCall call(h.tracer, functional.schema(), arguments);
  const at::Tensor after =
      view({h.tracer, functional, info_of(functional), arguments, call})[0].toTensor();
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(after.sizes(), after.strides(),
                                                      after.storage_offset());
  return {tensor};
}

}  // namespace poptorch::frontend
