#include "poptorch/ops.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/remainder.h>

#include <algorithm>
#include <tuple>

#include "frontends/torch/tracer/calls/json.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "ir/type.hpp"
#include "ops/custom_ops.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {
namespace {

using frontend::Tracer;
using support::str;
using support::UserError;

// The type by which operators take an argument: numbers by value.
template <typename T>
using Passed = std::conditional_t<std::is_arithmetic_v<T>, T, const T&>;

// Calls an operator of torch.ops.poptorch.
template <typename Result = at::Tensor, typename... Arguments>
Result call_own(const char* name, const Arguments&... arguments) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .template typed<Result(Passed<Arguments>...)>()
      .call(arguments...);
}

template <typename Function>
Tensors each(const Tensors& tensors, const Function& function) {
  Tensors made;
  for (const auto& tensor : tensors) made.push_back(function(tensor));
  return made;
}

Tensors copies(const Tensors& tensors) {
  return each(tensors, [](const torch::Tensor& tensor) { return tensor.clone(); });
}

torch::Tensor with_overlap(const torch::Tensor& tensor, const std::string& host, OverlapMode mode) {
  if (mode == OverlapMode::NoOverlap || !isRunningOnIpu()) return tensor;
  const bool inner = mode == OverlapMode::OverlapAccumulationLoop;
  const std::string loop = inner ? "accumulation_loop" : "device_iteration_loop";
  return call_own("poptorch::set_overlap", tensor, host, loop);
}

std::string types_text(const Tensors& tensors) {
  std::vector<std::string> texts;
  for (const auto& tensor : tensors) {
    texts.push_back(
        str(c10::toString(tensor.scalar_type()), " ", ir::shape_text(tensor.sizes().vec())));
  }
  return str("(", support::join(texts, ", "), ")");
}

void refuse_training(const char* function) {
  const Tracer* tracer = Tracer::current();
  if (!tracer || !tracer->training()) return;
  throw UserError(str("poptorch::", function, "() is only supported in inference. In a model for ",
                      "training write it in C++ (a loop unrolls), or with torch::where."));
}

struct Recorded {
  std::shared_ptr<frontend::Region> region;
  Tensors results;
};

// Records a body, which runs on proxies of `inputs`.
Recorded record(const Body& body, const Tensors& inputs, const Body& check) {
  Tracer& tracer = *Tracer::current();
  const Tensors stand_ins = tracer.begin_region(inputs);
  try {
    Tensors results = check(body(stand_ins));
    return {tracer.end_region(results), results};
  } catch (...) {
    tracer.abandon_region();
    throw;
  }
}

}  // namespace

bool isRunningOnIpu() { return Tracer::current() != nullptr; }

NameScope::NameScope(const std::string& name) {
  if (auto* tracer = Tracer::current()) tracer->push_scope(name);
}

NameScope::~NameScope() {
  if (auto* tracer = Tracer::current()) tracer->pop_scope();
}

namespace {

using Pairs = std::map<std::string, std::string>;
thread_local Pairs pairs_of_ops;

void carry(Pairs pairs) {
  pairs_of_ops = std::move(pairs);
  frontend::JsonObject labels;
  for (const auto& [key, text] : pairs_of_ops) labels.emplace_back(key, frontend::Json(text));
  auto* tracer = Tracer::current();
  if (tracer) tracer->set_labels(labels.empty() ? "" : frontend::json_text(labels));
}

}  // namespace

Attribute::Attribute(const std::string& key, const std::string& text) : outer_(pairs_of_ops) {
  Pairs all = outer_;
  all[key] = text;
  carry(std::move(all));
}

Attribute::~Attribute() { carry(outer_); }

torch::Tensor identity_loss(const torch::Tensor& x, const std::string& reduction) {
  if (reduction == "sum" || reduction == "mean" || reduction == "none") {
    return call_own("poptorch::identity_loss", x, reduction);
  }
  throw UserError(str("[identity_loss] the reduction is '", reduction,
                      "'. Expected one of sum, mean and none."));
}

torch::Tensor ipu_print_tensor(const torch::Tensor& tensor, const std::string& title,
                               bool print_gradient, const PrintFormat& format) {
  return call_own("poptorch::print_tensor", tensor, title, print_gradient,
                  format.summarise_threshold, format.edge_items, format.max_line_width,
                  format.digits, format.float_format, format.separator, format.open_bracket,
                  format.close_bracket);
}

Tensors ctc_beam_search_decoder(const torch::Tensor& probs, const torch::Tensor& lengths,
                                int64_t blank, int64_t beam_width, int64_t top_paths) {
  using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  const auto [scores, sizes, paths] =
      call_own<Three>("poptorch::ctc_beam_search", probs, lengths, blank, beam_width, top_paths);
  return {scores, sizes, paths};
}

torch::Tensor fps(const torch::Tensor& src, const std::vector<int64_t>& ptr, double ratio,
                  bool random_start) {
  if (!(ratio > 0 && ratio <= 1)) {
    throw UserError(str("[fps] the ratio must be above 0 and at most 1 but is ", ratio, "."));
  }
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("poptorch::farthest_points", "")
      .typed<at::Tensor(const at::Tensor&, at::IntArrayRef, double, bool)>()
      .call(src, ptr, ratio, random_start);
}

torch::Tensor nearest(const torch::Tensor& x, const torch::Tensor& y,
                      const std::optional<torch::Tensor>& batch_x,
                      const std::optional<torch::Tensor>& batch_y) {
  return call_own("poptorch::nearest_points", x, y, batch_x, batch_y);
}

torch::Tensor nop(const torch::Tensor& tensor) { return tensor.clone(); }

torch::Tensor recomputationCheckpoint(const torch::Tensor& tensor) {
  return call_own("poptorch::recomputation_checkpoint", tensor);
}

Tensors recomputationCheckpoint(const Tensors& tensors) {
  return each(tensors, [](const torch::Tensor& x) { return recomputationCheckpoint(x); });
}

torch::Tensor set_available_memory(const torch::Tensor& tensor, double proportion) {
  if (proportion >= 0 && proportion <= 1) return tensor.clone();
  throw UserError(
      str("[set_available_memory] the proportion must be from 0 to 1 but is ", proportion, "."));
}

torch::Tensor set_overlap_for_input(const torch::Tensor& input, OverlapMode mode) {
  return with_overlap(input, "input", mode);
}

Tensors set_overlap_for_input(const Tensors& inputs, OverlapMode mode) {
  return each(inputs, [&](const torch::Tensor& x) { return with_overlap(x, "input", mode); });
}

torch::Tensor set_overlap_for_output(const torch::Tensor& output, OverlapMode mode) {
  return with_overlap(output, "output", mode);
}

Tensors set_overlap_for_output(const Tensors& outputs, OverlapMode mode) {
  return each(outputs, [&](const torch::Tensor& x) { return with_overlap(x, "output", mode); });
}

torch::Tensor serializedMatMul(const torch::Tensor& lhs, const torch::Tensor& rhs,
                               MatMulSerializationMode mode, int64_t factor,
                               bool /*keep_precision*/) {
  using Mode = MatMulSerializationMode;
  const int64_t size = mode == Mode::InputChannels ? lhs.size(-2)
                       : mode == Mode::ReducingDim ? lhs.size(-1)
                                                   : rhs.size(-1);
  if (mode != Mode::Disabled && factor != 0 && size % factor != 0) {
    throw UserError(str("[serializedMatMul] factor ", factor, " does not divide the dimension, ",
                        size, ". Choose a divisor."));
  }
  if (mode == Mode::Disabled || factor <= 1 || !isRunningOnIpu()) return torch::matmul(lhs, rhs);
  const std::string serial = mode == Mode::InputChannels ? "rows"
                             : mode == Mode::ReducingDim ? "inner"
                                                         : "columns";
  return call_own("poptorch::serialized_matmul", lhs, rhs, serial, factor);
}

torch::Tensor dynamic_slice(const torch::Tensor& tensor, int64_t dim, const torch::Tensor& start,
                            int64_t size, int64_t step) {
  const int64_t length = tensor.size(dim);
  if (size <= 0 || length % size != 0 || step <= 0) {
    throw UserError(str("[dynamic_slice] size ", size, ", step ", step, ": the size must divide ",
                        "dimension ", dim, ", which is ", length, ", and both be above zero."));
  }
  const auto options = tensor.options().dtype(start.scalar_type());
  const torch::Tensor steps = torch::arange(0, size, step, options);
  return torch::index_select(tensor, dim, torch::remainder(start.reshape({1}) + steps, length));
}

torch::Tensor dynamic_update(const torch::Tensor& input, const torch::Tensor& src, int64_t dim,
                             const torch::Tensor& start, int64_t size) {
  if (input.dim() != src.dim() || input.scalar_type() != src.scalar_type()) {
    throw UserError(str("[dynamic_update] input and src must have the same dtype and number of ",
                        "dimensions, but they are ", types_text({input, src}), "."));
  }
  if (size <= 0 || size > input.size(dim)) {
    throw UserError(str("[dynamic_update] size ", size, " must be from 1 to ", input.size(dim),
                        ", the length of dimension ", dim, "."));
  }
  const auto options = input.options().dtype(start.scalar_type());
  const torch::Tensor steps = torch::arange(size, options);
  const torch::Tensor positions = torch::remainder(start.reshape({1}) + steps, input.size(dim));
  return torch::index_copy(input, dim, positions.to(torch::kLong), src);
}

Tensors custom_op(const Tensors& inputs, const std::string& name, const std::string& domain,
                  int64_t version, const std::map<std::string, AttributeValue>& attributes) {
  ops::CustomAttrs attrs;
  for (const auto& [key, value] : attributes) {
    attrs.emplace_back(key, std::visit([](const auto& held) { return ir::Attr(held); }, value));
  }
  const bool needs_gradient =
      at::GradMode::is_enabled() &&
      std::any_of(inputs.begin(), inputs.end(), [](const auto& x) { return x.requires_grad(); });
  if (needs_gradient && !isRunningOnIpu()) {
    throw UserError(str("[custom_op] op '", name, "' is used on the host with an input that needs ",
                        "a gradient, which does not pass through it there. Detach the input, or ",
                        "use it in a wrapped model."));
  }
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("poptorch::custom_op", "")
      .typed<Tensors(at::TensorList, const std::string&, const std::string&, int64_t,
                     const std::string&)>()
      .call(inputs, name, domain, version, ops::custom_attrs_text(std::move(attrs)));
}

Tensors for_loop(int64_t count, const Body& body, const Tensors& inputs) {
  refuse_training("for_loop");
  const auto like_inputs = [&](const Tensors& made) {
    if (types_text(made) == types_text(inputs)) return made;
    throw UserError(str("[for_loop] the body must give tensors like those it takes, ",
                        types_text(inputs), ", but gave ", types_text(made),
                        ". Return one of the same shape and dtype for each."));
  };
  if (count > 0 && isRunningOnIpu()) {
    const Recorded recorded = record(body, inputs, like_inputs);
    return Tracer::current()->repeat(*recorded.region, count, recorded.results);
  }
  Tensors state = copies(inputs);
  for (int64_t i = 0; i < count; ++i) state = copies(like_inputs(body(state)));
  return state;
}

Tensors cond(const torch::Tensor& condition, const Body& then_body, const Tensors& then_inputs,
             const Body& else_body, const Tensors& else_inputs) {
  refuse_training("cond");
  if (condition.numel() != 1) {
    throw UserError(str("[cond] the condition must be one boolean but has shape ",
                        ir::shape_text(condition.sizes().vec()),
                        ". Reduce it with all() or any(), or choose each element with ",
                        "torch::where."));
  }
  if (!isRunningOnIpu()) {
    const bool holds = condition.item().toBool();
    return copies(holds ? then_body(copies(then_inputs)) : else_body(copies(else_inputs)));
  }
  const auto any = [](const Tensors& made) { return made; };
  const torch::Tensor holds = condition.reshape({}).to(torch::kBool);
  const Recorded then_part = record(then_body, then_inputs, any);
  const Recorded else_part = record(else_body, else_inputs, any);
  if (types_text(then_part.results) != types_text(else_part.results)) {
    throw UserError(str("[cond] both bodies must give the same shapes and dtypes, but then_body ",
                        "gave ", types_text(then_part.results), " and else_body ",
                        types_text(else_part.results), "."));
  }
  return Tracer::current()->branch(holds, *then_part.region, *else_part.region, then_part.results);
}

}  // namespace poptorch
