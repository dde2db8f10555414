// Rounding that options ask for: partial sums in float16, and half-precision results that are
// computed in f32 and rounded stochastically.
#include <map>

#include "ir/builder.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::DType;
using ir::Op;
using ir::Role;
using ir::Value;

// Returns whether the op's results are new numbers. Ops that write state round by themselves; ops
// that move or choose data and exact ones need no rounding; foreign kernels and called graphs have
// fixed types.
bool computes(const Op& op) {
  const ir::OpDef& def = op.def();
  if (def.has_effect() || def.runs_graphs() || def.role == Role::kOpaque) return false;
  if (def.exact || def.chooses) return false;
  return def.role == Role::kCast || def.cost(op).flops > 0;
}

class OpRounder {
 public:
  explicit OpRounder(Op& op) : op_(op), builder_(op.graph(), &op) {
    builder_.copy_context(op);
    builder_.forward_id = op.forward_id;
  }

  void run() {
    bool narrow_operand = false, narrow_result = false;
    for (const Value* operand : op_.operands()) {
      narrow_operand |= operand && is_half(operand->type().dtype);
    }
    for (size_t i = 0; i < op_.result_count(); ++i) {
      narrow_result |= is_half(op_.result(i)->type().dtype);
    }
    if (!narrow_result) return;
    if (op_.role() == Role::kCast) return replace_cast();
    if (narrow_operand) compute_wide();
  }

 private:
  Value* rounded(Value* wide, DType dtype) {
    return builder_.value("stochastic_cast", {wide}, {{"dtype", dtype}});
  }

  Value* widened(Value* value) {
    if (!value || !is_half(value->type().dtype)) return value;
    return builder_.value("cast", {value}, {{"dtype", DType::kF32}});
  }

  void replace_cast() {
    Value* from = op_.operand(0);
    const DType dtype = op_.result()->type().dtype;
    if (is_half(from->type().dtype)) return;         // from one half type to the other
    if (from->type().dtype == DType::kBool) return;  // 0 and 1 are exact
    if (!ir::is_float(from->type().dtype)) {
      from = builder_.value("cast", {from}, {{"dtype", DType::kF32}});
    }
    op_.result()->replace_all_uses_with(rounded(from, dtype));
    op_.graph().erase(&op_);
  }

  void compute_wide() {
    std::map<const Value*, Value*> wide;
    std::vector<Value*> operands;
    for (Value* operand : op_.operands()) {
      const auto [known, is_new] = wide.emplace(operand, nullptr);
      if (is_new) known->second = widened(operand);
      operands.push_back(known->second);
    }
    ir::Attrs attrs = op_.attrs();
    const ir::Attr* dtype = attrs.find("dtype");
    if (dtype && is_half(std::get<DType>(*dtype))) attrs.set("dtype", DType::kF32);
    Op* made = builder_.emit(op_.name(), operands, attrs);
    for (size_t i = 0; i < op_.result_count(); ++i) {
      Value* old = op_.result(i);
      const bool narrow = is_half(old->type().dtype) && !is_half(made->result(i)->type().dtype);
      old->replace_all_uses_with(narrow ? rounded(made->result(i), old->type().dtype)
                                        : made->result(i));
    }
    op_.graph().erase(&op_);
  }

  Op& op_;
  ir::Builder builder_;
};

}  // namespace

void choose_partials(ir::Module& module) {
  for (const auto& graph : module.graphs()) {
    for (ir::Op* op : graph->ops()) {
      if (!op->def().find_attr("partials")) continue;
      const auto& asked = op->attr<std::string>("partials");
      const bool half = asked == "half" || (asked == "default" && module.execution().half_partials);
      const bool possible = op->operand(0)->type().dtype == ir::DType::kF16;
      op->set_attr("partials", std::string(half && possible ? "half" : "default"));
    }
  }
}

void round_stochastically(ir::Module& module) {
  if (!module.execution().stochastic_rounding) return;
  for (const auto& graph : module.graphs()) {
    for (Op* op : graph->op_list()) {
      if (computes(*op)) OpRounder(*op).run();
    }
  }
}

}  // namespace poptorch::transforms
