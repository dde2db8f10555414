// Walks backwards over the forward ops once, without a tape: the graph is the record, and rules
// refer to forward values directly.
#include "transforms/gradients.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/builder.hpp"
#include "ir/memory_writes.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "ir/text.hpp"
#include "support/error.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"
#include "transforms/activity.hpp"
#include "transforms/call_gradients.hpp"
#include "transforms/slice_sums.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;
using support::InternalError;
using support::str;
using support::UnsupportedError;

std::string place_of(const Op& op) {
  if (op.location.empty() && !op.scope.empty()) return str(" (in ", op.scope, ")");
  return ir::place_text(op.location);
}

class Backward {
 public:
  Backward(Graph& graph, const std::vector<Value*>& wanted, const CallGradients& calls)
      : graph_(graph),
        calls_(calls),
        builder_(graph),
        forward_(graph.op_list()),
        writes_(graph),
        activity_(graph, writes_, wanted) {
    contributions_.reserve(forward_.size());
  }

  std::vector<Value*> run(const std::vector<GradientSeed>& seeds,
                          const std::vector<Value*>& wanted) {
    const Op* last_forward = graph_.last();
    for (const GradientSeed& seed : seeds) {
      contributions_[seed.value].push_back({nullptr, 0, seed.gradient});
    }
    for (auto it = forward_.rbegin(); it != forward_.rend(); ++it) visit(**it);
    std::vector<Value*> gradients;
    for (Value* value : wanted) gradients.push_back(gradient_of_wanted(value));
    keep_overwritten_values(last_forward);
    return gradients;
  }

 private:
  struct Contribution {
    const Op* user;  // the forward op whose rule gave it; nullptr: a seed
    size_t operand;
    Value* gradient;
  };

  void visit(Op& op) {
    if (op.role() == ir::Role::kState) return;  // its reads are added up at the end, slot by slot
    std::vector<Value*> gradients;
    bool any = false;
    for (size_t i = 0; i < op.result_count(); ++i) {
      gradients.push_back(activity_.is_active(op.result(i)) ? gradient_of(op.result(i)) : nullptr);
      any |= gradients.back() != nullptr;
    }
    if (!any) return;
    builder_.copy_context(op);
    builder_.forward_id = op.id();
    ir::GradBuilder rule(builder_, op, std::move(gradients));
    for (size_t i = 0; i < op.operand_count(); ++i) {
      rule.needed.push_back(activity_.needs_gradient(op, i));
    }
    if (std::find(rule.needed.begin(), rule.needed.end(), true) == rule.needed.end()) return;
    pass_on(op, gradients_of_operands(op, rule), rule.needed);
  }

  std::vector<Value*> gradients_of_operands(const Op& op, ir::GradBuilder& rule) {
    if (!ir::gradient_of(op).empty()) return call_given_gradient(op, rule);
    if (calls_.handles(op)) return calls_.gradients_of(op, rule, builder_);
    if (const auto* reason = std::get_if<ir::NoGradient>(&op.def().grad)) {
      throw UnsupportedError(str("[autodiff] op '", op.name(), "'", place_of(op),
                                 " has no gradient, ", reason->reason,
                                 ", but a parameter's gradient passes through it: `", print(op),
                                 "`. Detach its operand, or compute the loss without it."));
    }
    return std::get<ir::GradRule>(op.def().grad)(rule);
  }

  // Calls the user's backward: (operands, results, gradients of floating results) → gradients of
  // floating operands.
  std::vector<Value*> call_given_gradient(const Op& op, const ir::GradBuilder& rule) {
    const ir::Symbol given = ir::gradient_of(op);
    std::vector<Value*> operands = op.operands();
    for (size_t i = 0; i < op.result_count(); ++i) operands.push_back(op.result(i));
    for (size_t i = 0; i < op.result_count(); ++i) {
      if (is_differentiable(op.result(i)->type())) operands.push_back(rule.dy(i));
    }
    const Op* call = builder_.emit("call", operands, {{"graph", ir::GraphRef{given}}});
    std::vector<Value*> gradients(op.operand_count(), nullptr);
    size_t next = 0;
    for (size_t i = 0; i < op.operand_count(); ++i) {
      if (is_differentiable(op.operand(i)->type()) && next < call->result_count()) {
        gradients[i] = call->result(next++);
      }
    }
    if (next != call->result_count()) {
      throw InternalError(str("[autodiff] graph @", given, " gives ", call->result_count(),
                              " gradients for ", next, " floating operands of `", print(op), "`"));
    }
    return gradients;
  }

  void pass_on(const Op& op, const std::vector<Value*>& gradients,
               const std::vector<bool>& needed) {
    for (size_t i = 0; i < gradients.size() && i < needed.size(); ++i) {
      if (!gradients[i] || !needed[i]) continue;
      const Value* operand = op.operand(i);
      if (gradients[i]->type() != operand->type()) {
        throw InternalError(str("[autodiff] the gradient rule of op '", op.name(), "' gives ",
                                gradients[i]->type(), " for operand ", i, " of type ",
                                operand->type(), place_of(op)));
      }
      if (const Op* writer = activity_.active_writer(&op, i)) {
        throw UnsupportedError(str("[autodiff] op '", op.name(), "'", place_of(op),
                                   " reads memory that op '", writer->name(), "'",
                                   place_of(*writer),
                                   " wrote, and a parameter's gradient would pass through that "
                                   "write. Use the written value itself, or detach it."));
      }
      contributions_[operand].push_back({&op, i, gradients[i]});
    }
  }

  // Returns the sum over all uses, which is built once: by the first call, all users have been
  // visited.
  Value* gradient_of(const Value* value) {
    auto it = contributions_.find(value);
    if (it == contributions_.end()) return nullptr;
    if (it->second.size() > 1 && value->producer()) {
      builder_.copy_context(*value->producer());
      builder_.forward_id = value->producer()->id();
    }
    it->second = {{nullptr, 0, add_up(it->second)}};
    return it->second[0].gradient;
  }

  Value* add_up(std::vector<Contribution>& parts) {
    std::stable_sort(parts.begin(), parts.end(), [](const Contribution& a, const Contribution& b) {
      // Seeds come last: the graph's own outputs are its last users.
      if (!a.user || !b.user) return a.user && !b.user;
      return a.user->id() != b.user->id() ? a.user->id() < b.user->id() : a.operand < b.operand;
    });
    std::vector<Value*> gradients;
    for (const Contribution& part : parts) gradients.push_back(part.gradient);
    join_slices(builder_, gradients);
    Value* sum = gradients[0];
    for (size_t i = 1; i < gradients.size(); ++i) {
      sum = builder_.value("add", {sum, gradients[i]});
    }
    return sum;
  }

  // Returns the gradient of a wanted value; of a variable, the sum over all `variable` ops of its
  // slot.
  Value* gradient_of_wanted(Value* value) {
    std::vector<Contribution> parts;
    for (const Value* read : reads_of(value)) {
      auto it = contributions_.find(read);
      if (it != contributions_.end()) {
        parts.insert(parts.end(), it->second.begin(), it->second.end());
      }
    }
    if (parts.empty()) return nullptr;
    if (parts.size() == 1) return parts[0].gradient;
    const auto first =
        std::min_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
          return (a.user ? a.user->id() : UINT64_MAX) < (b.user ? b.user->id() : UINT64_MAX);
        });
    if (first->user) {
      builder_.copy_context(*first->user);
      builder_.forward_id = first->user->id();
    }
    return add_up(parts);
  }

  const std::vector<const Value*>& reads_of(Value* value) {
    const std::string* wanted = ir::slot_of(value->producer());
    if (!wanted) {
      single_ = {value};
      return single_;
    }
    if (reads_.empty()) {
      for (const Op* op : forward_) {
        if (const std::string* slot = ir::slot_of(op)) reads_[*slot].push_back(op->result());
      }
    }
    return reads_[*wanted];
  }

  // Makes backward ops read memory as it was when their forward op ran.
  void keep_overwritten_values(const Op* last_forward) {
    std::unordered_map<uint64_t, Op*> forward_by_id;
    for (Op* op : forward_) {
      if (writes_.writes_memory(*op)) {
        for (Op* each : forward_) forward_by_id[each->id()] = each;
        break;
      }
    }
    if (forward_by_id.empty()) return;
    for (Op* op = last_forward ? last_forward->next() : graph_.first(); op; op = op->next()) {
      auto it = forward_by_id.find(op->forward_id);
      if (it == forward_by_id.end()) continue;
      for (size_t i = 0; i < op->operand_count(); ++i) {
        Value* operand = op->operand(i);
        if (operand && overwritten_after(operand, it->second)) {
          op->set_operand(i, copy_at(operand, it->second));
        }
      }
    }
  }

  bool overwritten_after(const Value* value, const Op* forward) const {
    for (const Op* writer : writes_.writers_of(value)) {
      const bool own = value->producer() == forward;  // its result is the memory after its write
      if (forward->is_before(writer) || (writer == forward && !own)) return true;
    }
    return false;
  }

  Value* copy_at(Value* value, Op* forward) {
    Value*& copy = copies_[forward][value];
    if (copy) return copy;
    const bool own = value->producer() == forward;
    ir::Builder builder(graph_, own ? forward->next() : forward);
    builder.copy_context(*forward);
    return copy = builder.value("identity", {value});
  }

  Graph& graph_;
  const CallGradients& calls_;
  ir::Builder builder_;
  std::vector<Op*> forward_;
  ir::MemoryWrites writes_;
  Activity activity_;
  support::FlatMap<const Value*, std::vector<Contribution>> contributions_;
  std::unordered_map<std::string, std::vector<const Value*>> reads_;                // look-up only
  std::unordered_map<const Op*, std::unordered_map<const Value*, Value*>> copies_;  // look-up only
  std::vector<const Value*> single_;
};

}  // namespace

std::vector<Value*> add_gradients(Graph& graph, std::vector<GradientSeed> seeds,
                                  std::vector<Value*> wanted) {
  const CallGradients calls(graph, seeds, wanted);
  return Backward(graph, wanted, calls).run(seeds, wanted);
}

}  // namespace poptorch::transforms
