// Lowers `parameter_gradient` marks to reductions and update ops.
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "ir/execution.hpp"
#include "ir/roles.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "transforms/optimiser_slots.hpp"
#include "transforms/passes.hpp"
#include "transforms/replica_sums.hpp"
#include "transforms/update_rules.hpp"

namespace poptorch::transforms {
namespace {

using ir::DType;
using ir::Graph;
using ir::Op;
using ir::Val;
using ir::Value;
using support::InternalError;
using support::str;

class OptimiserLowering {
 public:
  OptimiserLowering(Graph& main, const ir::Execution& execution)
      : main_(main),
        execution_(execution),
        spec_(*execution.optimiser),
        row_(update_row(spec_.kind)),
        scalars_builder_(main, main.first()) {
    if (accumulates()) {
      scalars_builder_.placement.context = ir::ExecutionContext::kAccumulateOuter;
    }
  }

  void run() {
    std::map<std::string, Op*> marks;
    for (Op* op : main_.ops()) {
      if (op->role() == ir::Role::kGradient) marks[op->attr<std::string>("parameter")] = op;
    }
    // An update that depends on every gradient waits for all; others follow their gradient at once.
    std::vector<Parameter> waiting;
    for (size_t group = 0; group < spec_.groups.size(); ++group) {
      for (const auto& name : spec_.groups[group].parameters) {
        auto it = marks.find(name);
        if (it == marks.end()) continue;
        Parameter parameter = started(group, *it->second);
        if (waits()) {
          waiting.push_back(std::move(parameter));
        } else {
          divide(parameter);
          update(parameter);
        }
      }
    }
    if (!waiting.empty()) update_together(waiting);
    for (const auto& [slot, count] : counts_) scalars_builder_.emit("increment", {count});
    for (const auto& [name, mark] : marks) main_.erase(mark);
  }

 private:
  bool accumulates() const { return execution_.gradient_accumulation > 1; }
  // Returns the number by which a mean divides the sum of all gradients.
  double mean_count() const {
    if (!execution_.mean_reduction) return 1.0;
    return static_cast<double>(execution_.gradient_accumulation * execution_.replication_factor);
  }
  bool divides_early() const { return spec_.running_mean && accumulates(); }
  bool clips() const { return std::isfinite(spec_.max_grad_norm); }
  bool waits() const { return clips() || spec_.automatic_loss_scaling; }

  // Returns a parameter with its gradient of all micro-batches and replicas, not yet divided.
  Parameter started(size_t group, Op& mark) {
    const std::string& name = mark.attr<std::string>("parameter");
    const ir::StateSlot* slot = main_.module().find_state(name);
    if (!slot) throw InternalError(str("[optimiser] there is no state slot '", name, "'"));
    ir::Builder builder(main_);
    builder.copy_context(mark);
    builder.forward_id = mark.forward_id;
    Value* accumulator = nullptr;
    Value* gradient = unrounded(mark.operand(0), name);
    if (accumulates()) {
      ir::Builder inner(main_, &mark);
      inner.copy_context(mark);
      inner.forward_id = mark.forward_id;
      accumulator = inner.variable(accumulator_slot(*slot, spec_.accumulator_type));
      inner.emit("accumulate", {accumulator, gradient},
                 {{"scale", divides_early() ? 1.0 / mean_count() : 1.0},
                  {"stochastic_rounding", execution_.stochastic_rounding}});
      builder.placement.context = ir::ExecutionContext::kAccumulateOuter;
      gradient = accumulator;
    }
    Parameter parameter(builder, spec_, group, *slot, scalars_, counts_, scalars_builder_);
    parameter.accumulator = accumulator;
    parameter.may_be_skipped = spec_.automatic_loss_scaling;
    parameter.weight = parameter.builder.variable(*slot);
    parameter.gradient = sum_over_replicas(parameter.builder, gradient, name, execution_);
    parameter.stochastic = execution_.stochastic_rounding;
    // Only the update rounds, so that every replica has the same numbers before it.
    if (parameter.stochastic) parameter.widen();
    return parameter;
  }

  // Returns what was rounded at random to `gradient`, if the next op is an accumulation or an
  // update that rounds at random: one rounding is enough. Replicas exchange halves, and gradients
  // that wait for others are kept as halves.
  Value* unrounded(Value* gradient, const std::string& name) const {
    const bool exchanged =
        execution_.replication_factor != 1 && execution_.group_of(name).size != 1;
    if (waits() || (exchanged && !accumulates())) return gradient;
    Op* maker = gradient->producer();
    return maker && maker->name() == "stochastic_cast" ? maker->operand(0) : gradient;
  }

  void update(Parameter& parameter, Value* wanted = nullptr) {
    parameter.written(parameter.weight);
    row_.emit(parameter);
    if (wanted) parameter.keep_unless(wanted);
    Value* accumulator = parameter.accumulator;
    if (!accumulator) return;
    ir::Builder& builder = parameter.builder;
    builder.emit("assign", {accumulator, builder.scalar(accumulator->type().dtype, 0.0)});
  }

  // Divides the gradient by the count of the mean and by the loss scaling.
  void divide(Parameter& parameter) {
    ir::Builder& builder = parameter.builder;
    Value*& gradient = parameter.gradient;
    const double count = divides_early() ? 1.0 : mean_count();
    Value* scale = loss_scale();
    if (!scale && count * spec_.loss_scaling == 1.0) return;
    parameter.widen();
    if (scale) {
      const DType dtype = gradient->type().dtype;
      Val divisor = Val{scale, &builder} * count;
      gradient =
          builder.value("div", {gradient, builder.value("cast", {divisor}, {{"dtype", dtype}})});
      return;
    }
    const double divisor = count * spec_.loss_scaling;
    int exponent;
    // A power of two divides exactly by multiplication, which is cheaper.
    gradient = std::frexp(divisor, &exponent) == 0.5 ? Val{gradient, &builder} * (1.0 / divisor)
                                                     : Val{gradient, &builder} / divisor;
  }

  Value* loss_scale() {
    if (!loss_scale_) loss_scale_ = variable_loss_scale(scalars_builder_, spec_);
    return loss_scale_;
  }

  // Returns a builder for ops that do not belong to one parameter.
  ir::Builder common(const Parameter& any) const {
    ir::Builder builder(main_);
    builder.placement = any.builder.placement;
    return builder;
  }

  void update_together(std::vector<Parameter>& parameters) {
    ir::Builder builder = common(parameters[0]);
    Value* usable = nullptr;
    if (spec_.automatic_loss_scaling) usable = follow_gradients(builder, parameters);
    for (Parameter& parameter : parameters) divide(parameter);
    if (clips()) clip(builder, parameters);
    for (Parameter& parameter : parameters) update(parameter, usable);
    if (!usable) return;
    for (const auto& [slot, count] : counts_) {  // does not count a skipped step
      Val counted{count, &builder};
      builder.emit("assign", {counted, builder.value("select", {usable, counted, counted - 1.0})});
    }
    builder.emit("assign", {builder.variable(loss_scale_factor_slot()), next_factor_});
  }

  static const std::string& name_of(const Parameter& parameter) {
    return *ir::slot_of(parameter.weight->producer());
  }

  // Scales all gradients by max_grad_norm / norm if that is below 1 (torch's clip_grad_norm_). A
  // NaN norm ends the run.
  void clip(ir::Builder& builder, std::vector<Parameter>& parameters) {
    Value* squares = nullptr;
    for (Parameter& p : parameters) {
      Value* one = builder.value("square", {l2_norm(p.builder, p.gradient)});
      one = sum_over_groups(p.builder, one, name_of(p), execution_);
      squares = squares ? builder.value("add", {squares, one}) : one;
    }
    Val total{builder.value("sqrt", {squares}), &builder};
    if (!spec_.automatic_loss_scaling) {
      builder.emit("check_floats", {total}, {{"op", std::string("the norm of all gradients")}});
    }
    Value* limit = builder.scalar(DType::kF32, spec_.max_grad_norm);
    Val factor = Val{limit, &builder} / (total + 1e-6);
    Value* bounded = builder.value("minimum", {factor, builder.scalar(DType::kF32, 1.0)});
    for (Parameter& p : parameters) {
      p.widen();
      const DType dtype = p.gradient->type().dtype;
      Value* scale = bounded;
      if (dtype != DType::kF32) scale = p.builder.value("cast", {bounded}, {{"dtype", dtype}});
      p.gradient = p.builder.value("mul", {p.gradient, scale});
    }
  }

  // Returns whether every scaled gradient is finite. Also chooses the next factor of the loss
  // scaling. It is halved if a gradient is not finite, or if the largest gradient of float16
  // weights is near that type's limit; it is doubled if that gradient is far from the limit.
  Value* follow_gradients(ir::Builder& builder, std::vector<Parameter>& parameters) {
    constexpr double kNear = 8192.0, kFar = 1024.0, kLeast = 0x1p-24, kMost = 0x1p24;
    Value *largest_half = nullptr, *largest_other = nullptr;
    for (Parameter& p : parameters) {
      Value* one = p.builder.value("abs", {p.gradient});
      ir::Ints axes(static_cast<size_t>(one->type().rank()));
      std::iota(axes.begin(), axes.end(), 0);
      if (!axes.empty()) one = p.builder.value("max", {one}, {{"axes", axes}});
      if (one->type().dtype != DType::kF32) {
        one = p.builder.value("cast", {one}, {{"dtype", DType::kF32}});
      }
      one = largest_of_groups(p.builder, one, name_of(p), execution_);
      const bool is_half = p.weight->type().dtype == DType::kF16;
      Value*& largest = is_half ? largest_half : largest_other;
      largest = largest ? builder.value("maximum", {largest, one}) : one;
    }
    auto below = [&](Value* largest, double limit) {  // false for NaN
      return builder.value("lt", {largest, builder.scalar(DType::kF32, limit)});
    };
    const double infinity = std::numeric_limits<double>::infinity();
    Val factor{builder.variable(loss_scale_factor_slot()), &builder};
    Value* usable = nullptr;
    Value* next = factor.value;
    if (largest_half) {
      next = builder.value("select", {below(largest_half, kFar), factor * 2.0, next});
      next = builder.value("select", {below(largest_half, kNear), next, factor * 0.5});
      usable = below(largest_half, infinity);
    }
    if (largest_other) {
      Value* others = below(largest_other, infinity);
      usable = usable ? builder.value("logical_and", {usable, others}) : others;
      next = builder.value("select", {others, next, factor * 0.5});
    }
    next_factor_ = builder.value("clamp", {next}, {{"low", kLeast}, {"high", kMost}});
    return usable;
  }

  Graph& main_;
  const ir::Execution& execution_;
  const ir::OptimiserSpec& spec_;
  const UpdateRow& row_;
  ir::Builder scalars_builder_;
  std::map<std::string, Value*> scalars_;
  std::map<std::string, Value*> counts_;  // numbers of updates
  Value* loss_scale_ = nullptr;
  Value* next_factor_ = nullptr;  // for automatic loss scaling
};

}  // namespace

void lower_optimiser(ir::Module& module) {
  ir::Execution& execution = module.execution();
  if (!execution.training) return;
  const auto& groups = checked_optimiser(execution).groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].values.count("lr")) continue;
    throw support::UserError(str("[optimiser] group ", i, " has no lr. Give it one."));
  }
  OptimiserLowering(module.main(), execution).run();
  execution.optimiser.reset();
}

}  // namespace poptorch::transforms
