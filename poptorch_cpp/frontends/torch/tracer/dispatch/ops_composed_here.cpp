// Composes operators that read values on the host in torch, without such reads. Declared in
// handled.hpp.
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>

#include <algorithm>
#include <string>

#include "frontends/torch/tracer/dispatch/handled.hpp"
#include "support/strings.hpp"

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
    weights = counts ? weights.mul(given) : given;
  }
  const int64_t observations = x.size(1);
  if (weights.defined() && (weights.dim() != 1 || weights.numel() != observations)) {
    h.call.fail("fweights and aweights must have one number per observation.");
  }
  if (!weights.defined()) {
    weights = at::ones({observations}, x.options().dtype(c10::toRealValueType(x.scalar_type())));
  }
  const at::Tensor total = weights.sum();
  const at::Tensor centred = x.sub(x.mul(weights).sum(1, true).div(total));
  at::Tensor count = total.sub(correction);
  if (weighs) {
    count = total.sub(weights.mul(h.arguments[3].toTensor()).sum().mul(correction).div(total));
  }
  const at::Tensor sums = at::matmul(centred, centred.mul(weights).mH());
  return {sums.div(at::clamp_min(count, 0)).squeeze()};
}

Results repeated(const Handled& h) {
  if (auto known = by_known_values(h)) return *std::move(known);
  if (!h.call.given(1)) refuse_dynamic_shape(h, h.arguments[0]);
  const at::Tensor ends = h.arguments[0].toTensor().cumsum(0);
  const at::Tensor places = at::arange(h.arguments[1].toInt(), ends.options());
  return {at::searchsorted(ends, places, false, true).to(at::kLong)};
}

// Solves by QR. Assumes full rank, whereas torch determines the rank.
Results least_squares(const Handled& h) {
  const at::Tensor &a = h.arguments[0].toTensor(), &given = h.arguments[1].toTensor();
  const std::string driver = h.call.given(3) ? h.call.text(3) : "gelsy";
  const bool is_vector = given.dim() == 1 || (a.dim() - 1 == given.dim() &&
                                              a.sizes().slice(0, a.dim() - 1) == given.sizes());
  const at::Tensor b = is_vector ? given.unsqueeze(-1) : given;
  const int64_t rows = a.size(-2), columns = a.size(-1);
  const bool is_tall = rows >= columns;
  const auto [q, r] = at::linalg_qr(is_tall ? a : a.mH());
  const at::Tensor x = is_tall ? at::linalg_solve_triangular(r, at::matmul(q.mH(), b), true)
                               : at::matmul(q, at::linalg_solve_triangular(r.mH(), b, false));
  h.tracer.warn_once(support::str(
      "torch.linalg.lstsq", h.tracer.place(),
      " assumes that its matrices have full rank: for others the result has nan or infinity"));
  at::Tensor residuals = h.tracer.make_empty({0}, a.scalar_type()), singular = residuals;
  at::Tensor rank = h.tracer.make_empty({0}, at::kLong);
  if (rows > columns && driver != "gelsy") {
    residuals = at::matmul(a, x).sub(b).abs().square().sum(-2);
  }
  const auto batch = a.sizes().slice(0, a.dim() - 2);
  if (driver != "gels") {
    rank = at::full(batch, std::min(rows, columns), a.options().dtype(at::kLong));
  }
  if (driver == "gelsd" || driver == "gelss") singular = at::linalg_svdvals(a.detach());
  return {is_vector ? x.squeeze(-1) : x, residuals, rank, singular};
}

}  // namespace poptorch::frontend
