// From `parameter_gradient` marks to reductions and update ops.
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "ir/builder.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "transforms/optimiser_slots.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::DType;
using ir::Graph;
using ir::Op;
using ir::Val;
using ir::Value;
using support::InternalError;
using support::str;

// What an update rule sees of one parameter.
class Parameter {
 public:
  Parameter(const ir::Builder& builder, const OptimiserSpec& spec, size_t group,
            const ir::StateSlot& slot, std::map<std::string, Value*>& scalars,
            ir::Builder& scalar_builder)
      : builder(builder),
        spec(spec),
        slot_(slot),
        group_(group),
        scalars_(scalars),
        scalar_builder_(scalar_builder) {}

  ir::Builder builder;
  const OptimiserSpec& spec;
  Value* weight = nullptr;
  Value* gradient = nullptr;
  Value* accumulator = nullptr;  // to be reset after the update
  bool may_be_skipped = false;

  double number(const std::string& name, double otherwise = 0.0) const {
    return hyper_parameter(spec.groups[group_], name, otherwise);
  }
  bool flag(const std::string& name, bool otherwise = false) const {
    return number(name, otherwise) != 0.0;
  }
  bool is_variable(const std::string& name) const {
    return spec.groups[group_].variable.count(name) != 0;
  }
  // True unless the hyper-parameter is a constant zero.
  bool may_be_nonzero(const std::string& name) const {
    return is_variable(name) || number(name) != 0.0;
  }
  // An f64 scalar; equal ones are made once.
  Value* scalar(const std::string& name, double otherwise = 0.0) {
    if (is_variable(name)) return read_once(hyper_parameter_slot(spec, group_, name));
    const double value = number(name, otherwise);
    Value*& known = scalars_[ir::attr_text(value)];
    return known ? known : known = scalar_builder_.scalar(DType::kF64, value);
  }
  Value* step() { return read_once(step_slot()); }
  Value* state(const std::string& what, DType dtype, double initial = 0.0) {
    ir::StateSlot slot = parameter_state_slot(slot_, what, dtype, initial);
    return written(builder.variable(std::move(slot)));
  }
  // The memory of `value` is written by the update.
  Value* written(Value* value) {
    if (may_be_skipped) before_.emplace_back(value, builder.value("identity", {value}));
    return value;
  }
  // Where the update is not `wanted`, everything is as before.
  void keep_unless(Value* wanted) {
    for (const auto& [now, before] : before_) {
      builder.emit("assign", {now, builder.value("select", {wanted, now, before})});
    }
  }

 private:
  Value* read_once(ir::StateSlot slot) {
    Value*& known = scalars_[slot.name.text()];
    return known ? known : known = scalar_builder_.variable(std::move(slot));
  }

  const ir::StateSlot& slot_;
  size_t group_;
  std::map<std::string, Value*>& scalars_;
  ir::Builder& scalar_builder_;
  std::vector<std::pair<Value*, Value*>> before_;  // memory, and a copy of what it held
};

void update_sgd(Parameter& p) {
  const bool maximize = p.flag("maximize");
  if (!p.may_be_nonzero("momentum")) {
    p.builder.emit("sgd_update", {p.weight, p.gradient, p.scalar("lr"), p.scalar("weight_decay")},
                   {{"maximize", maximize}});
    return;
  }
  Value* buffer = p.state("momentum_buffer", p.spec.first_moment_type);
  p.builder.emit("sgd_momentum_update",
                 {p.weight, buffer, p.gradient, p.step(), p.scalar("lr"), p.scalar("weight_decay"),
                  p.scalar("momentum"), p.scalar("dampening")},
                 {{"maximize", maximize}, {"nesterov", p.flag("nesterov")}});
}

void update_adam(Parameter& p, bool decoupled) {
  Value* m = p.state("exp_avg", p.spec.first_moment_type);
  Value* v = p.state("exp_avg_sq", p.spec.second_moment_type);
  p.builder.emit("adam_update",
                 {p.weight, m, v, p.gradient, p.step(), p.scalar("lr"), p.scalar("beta1", 0.9),
                  p.scalar("beta2", 0.999), p.scalar("eps", 1e-8), p.scalar("weight_decay")},
                 {{"maximize", p.flag("maximize")},
                  {"decoupled", decoupled},
                  {"bias_correction", p.flag("bias_correction", true)}});
}

void update_rmsprop(Parameter& p) {
  const bool tf_variant = p.flag("use_tf_variant");
  Value* s = p.state("square_avg", p.spec.second_moment_type, tf_variant ? 1.0 : 0.0);
  Value* buffer = nullptr;
  Value* mean = nullptr;
  if (p.may_be_nonzero("momentum")) buffer = p.state("momentum_buffer", p.spec.first_moment_type);
  if (p.flag("centered")) mean = p.state("grad_avg", p.spec.first_moment_type);
  p.builder.emit(
      "rmsprop_update",
      {p.weight, s, p.gradient, p.scalar("lr"), p.scalar("alpha", 0.99), p.scalar("eps", 1e-8),
       p.scalar("weight_decay"), p.scalar("momentum"), buffer, mean},
      {{"maximize", p.flag("maximize")}, {"tf_variant", tf_variant}});
}

// The L2 norm, in f32.
Val norm(ir::Builder& b, Value* x) {
  if (x->type().dtype != DType::kF32) x = b.value("cast", {x}, {{"dtype", DType::kF32}});
  ir::Ints axes;
  for (int64_t i = 0; i < x->type().rank(); ++i) axes.push_back(i);
  Value* squares = b.value("square", {x});
  if (!axes.empty()) squares = b.value("sum", {squares}, {{"axes", axes}});
  return {b.value("sqrt", {squares}), &b};
}

// w -= lr · trust · direction, trust = min(|w|, max_weight_norm) / |direction|, or 1 when either is
// 0.
void update_lamb(Parameter& p) {
  ir::Builder& b = p.builder;
  Value* m = p.state("exp_avg", p.spec.first_moment_type);
  Value* v = p.state("exp_avg_sq", p.spec.second_moment_type);
  Op* moments = b.emit("lamb_direction",
                       {m, v, p.weight, p.gradient, p.step(), p.scalar("beta1", 0.9),
                        p.scalar("beta2", 0.999), p.scalar("eps", 1e-8), p.scalar("weight_decay")},
                       {{"bias_correction", p.flag("bias_correction", true)}});
  const DType dtype = p.weight->type().dtype;
  Val direction{moments->result(2), &b};
  Val of_weight = norm(b, p.weight), of_direction = norm(b, direction);
  Value* limit = b.value("cast", {p.scalar("max_weight_norm", 65500.0)}, {{"dtype", DType::kF32}});
  Val trust = Val{b.value("minimum", {of_weight, limit}), &b} / of_direction;
  Value* zero = b.scalar(DType::kF32, 0.0);
  Value* both = b.value("mul", {of_weight, of_direction});
  Value* usable = b.value("gt", {both, zero});
  Val factor{b.value("select", {usable, trust, b.scalar(DType::kF32, 1.0)}), &b};
  factor = factor * Val{b.value("cast", {p.scalar("lr")}, {{"dtype", DType::kF32}}), &b};
  Val scale{b.value("cast", {factor}, {{"dtype", dtype}}), &b};
  b.emit("assign", {p.weight, Val{p.weight, &b} - direction * scale});
}

struct UpdateRow {
  const char* kind;
  void (*emit)(Parameter&);
};

constexpr UpdateRow kUpdates[] = {
    {"sgd", update_sgd},
    {"adam", [](Parameter& p) { update_adam(p, false); }},
    {"adamw", [](Parameter& p) { update_adam(p, true); }},
    {"rmsprop", update_rmsprop},
    {"lamb", update_lamb},
};

const UpdateRow& update_row(const std::string& kind) {
  for (const UpdateRow& row : kUpdates) {
    if (row.kind == kind) return row;
  }
  throw support::UserError(
      str("[optimiser] kind '", kind, "' is not known. Use sgd, adam, adamw, rmsprop or lamb."));
}

class Lowering {
 public:
  Lowering(Graph& main, const PassContext& context)
      : main_(main),
        context_(context),
        spec_(*context.optimiser),
        row_(update_row(spec_.kind)),
        scalars_builder_(main, main.first()) {
    if (accumulates()) {
      scalars_builder_.placement.context = ir::ExecutionContext::kAccumulateOuter;
    }
  }

  void run() {
    std::map<std::string, Op*> marks;
    for (Op* op : main_.ops()) {
      if (op->is("parameter_gradient")) marks[op->attr<std::string>("parameter")] = op;
    }
    // An update that needs to see every gradient waits for them; others follow theirs at once.
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
    auto step = scalars_.find(step_slot().name.text());
    if (step != scalars_.end()) scalars_builder_.emit("increment", {step->second});
    for (const auto& [name, mark] : marks) main_.erase(mark);
  }

 private:
  bool accumulates() const { return context_.gradient_accumulation > 1; }
  bool clips() const { return std::isfinite(spec_.max_grad_norm); }
  bool waits() const { return clips() || spec_.automatic_loss_scaling; }

  // A parameter with its gradient of all micro-batches and replicas, not yet divided.
  Parameter started(size_t group, Op& mark) {
    const std::string& name = mark.attr<std::string>("parameter");
    const ir::StateSlot* slot = main_.module().find_state(name);
    if (!slot) throw InternalError(str("[optimiser] there is no state slot '", name, "'"));
    ir::Builder builder(main_);
    builder.copy_context(mark);
    builder.forward_id = mark.forward_id;
    Value* accumulator = nullptr;
    Value* gradient = mark.operand(0);
    if (accumulates()) {
      ir::Builder inner(main_, &mark);
      inner.copy_context(mark);
      inner.forward_id = mark.forward_id;
      accumulator = inner.variable(accumulator_slot(*slot, spec_.accumulator_type));
      inner.emit("accumulate", {accumulator, gradient});
      builder.placement.context = ir::ExecutionContext::kAccumulateOuter;
      gradient = accumulator;
    }
    Parameter parameter(builder, spec_, group, *slot, scalars_, scalars_builder_);
    parameter.accumulator = accumulator;
    parameter.may_be_skipped = spec_.automatic_loss_scaling;
    parameter.weight = parameter.builder.variable(*slot);
    const bool replicated = context_.replication_factor > 1;
    parameter.gradient = replicated ? parameter.builder.value("all_reduce", {gradient}) : gradient;
    return parameter;
  }

  void update(Parameter& parameter, Value* wanted = nullptr) {
    parameter.written(parameter.weight);
    row_.emit(parameter);
    if (wanted) parameter.keep_unless(wanted);
    Value* accumulator = parameter.accumulator;
    if (!accumulator) return;
    ir::Builder& builder = parameter.builder;
    Value* zero = builder.scalar(accumulator->type().dtype, 0.0);
    if (accumulator->type().rank() > 0) {
      zero =
          builder.value("broadcast_to", {zero}, {{"shape", ir::Ints(accumulator->type().shape)}});
    }
    builder.emit("assign", {accumulator, zero});
  }

  // The mean over micro-batches and replicas, without the loss scaling.
  void divide(Parameter& parameter) {
    ir::Builder& builder = parameter.builder;
    Value*& gradient = parameter.gradient;
    const double count =
        context_.mean_reduction
            ? static_cast<double>(context_.gradient_accumulation * context_.replication_factor)
            : 1.0;
    if (Value* scale = loss_scale()) {
      const DType dtype = gradient->type().dtype;
      Val divisor = Val{scale, &builder} * count;
      gradient =
          builder.value("div", {gradient, builder.value("cast", {divisor}, {{"dtype", dtype}})});
      return;
    }
    const double divisor = count * spec_.loss_scaling;
    if (divisor == 1.0) return;
    int exponent;
    // A power of two divides exactly by multiplication, which is cheaper.
    gradient = std::frexp(divisor, &exponent) == 0.5 ? Val{gradient, &builder} * (1.0 / divisor)
                                                     : Val{gradient, &builder} / divisor;
  }

  Value* loss_scale() {
    if (!loss_scale_) loss_scale_ = variable_loss_scale(scalars_builder_, spec_);
    return loss_scale_;
  }

  // --- all gradients together -------------------------------------------------------------------
  // What no parameter's context is right for.
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
    auto step = scalars_.find(step_slot().name.text());
    if (step != scalars_.end()) {  // taken back
      Val counted{step->second, &builder};
      builder.emit("assign", {counted, builder.value("select", {usable, counted, counted - 1.0})});
    }
    builder.emit("assign", {builder.variable(loss_scale_factor_slot()), next_factor_});
  }

  // Scales all gradients by max_grad_norm over their norm, when that is below 1 (torch's
  // clip_grad_norm_). A norm that is not a number ends the run.
  void clip(ir::Builder& builder, std::vector<Parameter>& parameters) {
    Value* squares = nullptr;
    for (Parameter& p : parameters) {
      Value* one = builder.value("square", {norm(p.builder, p.gradient)});
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
      const DType dtype = p.gradient->type().dtype;
      Value* scale = bounded;
      if (dtype != DType::kF32) scale = p.builder.value("cast", {bounded}, {{"dtype", dtype}});
      p.gradient = p.builder.value("mul", {p.gradient, scale});
    }
  }

  // Whether every scaled gradient is finite. Also decides the next factor of the loss scaling: half
  // when the largest gradient is near float16's limit, twice when it is far from it.
  Value* follow_gradients(ir::Builder& builder, std::vector<Parameter>& parameters) {
    constexpr double kNear = 8192.0, kFar = 1024.0, kLeast = 0x1p-24, kMost = 0x1p24;
    Value* largest = nullptr;
    for (Parameter& p : parameters) {
      Value* one = p.builder.value("abs", {p.gradient});
      ir::Ints axes(static_cast<size_t>(one->type().rank()));
      std::iota(axes.begin(), axes.end(), 0);
      if (!axes.empty()) one = p.builder.value("max", {one}, {{"axes", axes}});
      if (one->type().dtype != DType::kF32) {
        one = p.builder.value("cast", {one}, {{"dtype", DType::kF32}});
      }
      largest = largest ? builder.value("maximum", {largest, one}) : one;
    }
    auto below = [&](double limit) {  // false for NaN
      return builder.value("lt", {largest, builder.scalar(DType::kF32, limit)});
    };
    Val factor{builder.variable(loss_scale_factor_slot()), &builder};
    Value* same_or_twice = builder.value("select", {below(kFar), factor * 2.0, factor});
    Value* next = builder.value("select", {below(kNear), same_or_twice, factor * 0.5});
    next_factor_ = builder.value("clamp", {next}, {{"low", kLeast}, {"high", kMost}});
    return below(std::numeric_limits<double>::infinity());
  }

  Graph& main_;
  const PassContext& context_;
  const OptimiserSpec& spec_;
  const UpdateRow& row_;
  ir::Builder scalars_builder_;
  std::map<std::string, Value*> scalars_;
  Value* loss_scale_ = nullptr;
  Value* next_factor_ = nullptr;  // of automatic loss scaling
};

}  // namespace

void lower_optimiser(ir::Module& module, PassContext& context) {
  if (!context.training) return;
  if (!context.optimiser) throw InternalError("[optimiser] training needs an optimiser");
  Lowering(module.main(), context).run();
}

}  // namespace poptorch::transforms
