// Operators of torch's that look at values on their way, composed without that: see handled.hpp.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>

#include "frontends/torch/tracer/handled.hpp"

namespace poptorch::frontend {

Results covariance(const Handled& h) {
  at::Tensor x = h.arguments[0].toTensor();
  const int64_t correction = h.arguments[1].toInt();
  if (x.dim() > 2) h.call.fail("expected input to have two or fewer dimensions.");
  if (x.dim() < 2) x = x.view({1, -1});
  if (!x.is_floating_point() && !x.is_complex()) x = x.to(at::kFloat);
  const bool counts = h.call.given(2), weighs = h.call.given(3);
  at::Tensor weights;
  if (counts) weights = h.arguments[2].toTensor();
  if (weighs) {
    const at::Tensor& given = h.arguments[3].toTensor();
    weights = counts ? weights * given : given;
  }
  const int64_t observations = x.size(1);
  if (weights.defined() && (weights.dim() != 1 || weights.numel() != observations)) {
    h.call.fail("fweights and aweights must have one number an observation.");
  }
  if (!weights.defined()) weights = at::ones({observations}, x.options());
  weights = weights.to(c10::toRealValueType(x.scalar_type()));
  const at::Tensor total = weights.sum();
  const at::Tensor centred = x - (x * weights).sum(1, true) / total;
  at::Tensor count = total - correction;
  if (weighs) {
    count = total - correction * (weights * h.arguments[3].toTensor()).sum() / total;
  }
  const at::Tensor sums = at::matmul(centred, (centred * weights).mH());
  return {(sums / at::clamp_min(count, 0)).squeeze()};
}

Results repeated(const Handled& h) {
  if (auto known = by_known_values(h)) return *std::move(known);
  if (!h.call.given(1)) refuse_dynamic_shape(h);
  const at::Tensor ends = h.arguments[0].toTensor().cumsum(0);
  const at::Tensor places = at::arange(h.arguments[1].toInt(), ends.options());
  return {at::searchsorted(ends, places, false, true).to(at::kLong)};
}

}  // namespace poptorch::frontend
