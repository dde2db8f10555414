// The decoder that matches the loss of connectionist temporal classification.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

// Returns types of [batch, paths], [batch, paths] and [batch, paths, time].
std::vector<Type> paths_of(const InferContext& c) {
  const Type& x = c.operand(0);
  if (x.rank() != 3) c.fail(str("probabilities must be [time, batch, classes] but are ", x, "."));
  const int64_t time = x.shape[0], batch = x.shape[1], classes = x.shape[2];
  require_shape(c, 1, {batch});
  const auto blank = c.attr<int64_t>("blank"), width = c.attr<int64_t>("beam_width");
  const auto paths = c.attr<int64_t>("top_paths");
  if (blank >= classes) c.fail(str("blank is ", blank, " but there are ", classes, " classes."));
  if (paths > width) c.fail(str("top_paths is ", paths, " but the beam is ", width, " wide."));
  return {{x.dtype, {batch, paths}},
          {DType::kI32, {batch, paths}},
          {DType::kI32, {batch, paths, time}}};
}

// Each path of the beam continues with each class, at each time. That takes two sums of logarithms,
// and sorting. A moment continues the best paths of the one before.
Cost searching(const Op& op) {
  constexpr double kEach = 24;
  const Type& x = op.operand(0)->type();
  const auto width = static_cast<double>(op.attr<int64_t>("beam_width"));
  return Cost{.flops = kEach * width * static_cast<double>(x.elements()),
              .bytes = bytes_of(op),
              .steps = std::max(1.0, static_cast<double>(x.shape[0]))};
}

}  // namespace

void add_beam_search_ops(Registry& r) {
  r.add({.name = "ctc_beam_search",
         .doc = "The most likely paths by prefix beam search (Hannun et al. 2014) from log "
                "probabilities [time, batch, classes] and lengths in time, best first: their log "
                "probabilities, lengths and classes, padded with blanks. Missing paths are empty, "
                "with log probability -infinity.",
         .inputs = {"log_probabilities: float", "lengths: i32"},
         .outputs = {"path_log_probabilities", "path_lengths", "paths"},
         .attrs = {at_least(0, {"blank", AttrType::kInt, int64_t{0}}),
                   within({"beam_width", AttrType::kInt, int64_t{100}}, 1, 1 << 20),
                   at_least(1, {"top_paths", AttrType::kInt, int64_t{1}})},
         .infer = paths_of,
         .grad = NoGradient{"a search is not differentiable"},
         .cost = searching,
         .popart_type = "CtcBeamSearchDecoder"});
}

}  // namespace poptorch::ops
