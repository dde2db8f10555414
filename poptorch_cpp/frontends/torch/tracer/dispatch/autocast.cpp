// The lists follow those of torch's CPU autocast.
#include "frontends/torch/tracer/dispatch/autocast.hpp"

#include <set>

#include "frontends/torch/tracer/op_facts/torch_functions.hpp"

namespace poptorch::frontend {
namespace {

const std::set<std::string> kLower{"conv1d",
                                   "conv2d",
                                   "conv3d",
                                   "bmm",
                                   "mm",
                                   "baddbmm",
                                   "addmm",
                                   "linear",
                                   "matmul",
                                   "conv_transpose1d",
                                   "conv_transpose2d",
                                   "conv_transpose3d",
                                   "prelu",
                                   "convolution",
                                   "addbmm",
                                   "scaled_dot_product_attention"};

const std::set<std::string> kFloat{"avg_pool3d",
                                   "binary_cross_entropy",
                                   "mse_loss",
                                   "cosine_embedding_loss",
                                   "nll_loss_nd",
                                   "nll_loss",
                                   "nll_loss2d",
                                   "hinge_embedding_loss",
                                   "poisson_nll_loss",
                                   "smooth_l1_loss",
                                   "huber_loss",
                                   "cross_entropy_loss",
                                   "l1_loss",
                                   "margin_ranking_loss",
                                   "soft_margin_loss",
                                   "triplet_margin_loss",
                                   "multinomial",
                                   "kl_div",
                                   "pdist",
                                   "ctc_loss",
                                   "linalg_inv_ex",
                                   "cholesky",
                                   "quantile"};

bool is_cast(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() &&
         c10::isFloatingType(value.toTensor().scalar_type()) &&
         value.toTensor().scalar_type() != at::kDouble;
}

}  // namespace

void apply_autocast(const std::string& op, std::vector<c10::IValue>& arguments) {
  if (!at::autocast::is_autocast_enabled(at::kCPU)) return;
  const bool lower = kLower.contains(op);
  if (!lower && !kFloat.contains(op)) return;
  const auto dtype = lower ? at::autocast::get_autocast_dtype(at::kCPU) : at::kFloat;
  for (c10::IValue& argument : arguments) {
    if (is_cast(argument)) argument = argument.toTensor().to(dtype);
  }
}

}  // namespace poptorch::frontend
