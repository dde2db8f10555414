#include "partition/place.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "ir/builder.hpp"
#include "ir/effects.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "ir/text.hpp"
#include "partition/regions.hpp"
#include "partition/smallest_form.hpp"
#include "support/error.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Placement;
using ir::Value;
using support::str;
using support::Symbol;

Symbol slot_of(const Op& variable) { return *ir::slot_of(&variable); }

// Whether the slot is an optimiser scalar, which every update reads, on whatever IPU it is.
bool is_shared(const ir::StateSlot& slot) {
  return slot.kind == "hyper_parameter" ||
         (slot.kind == "optimiser_state" && slot.type.shape.empty());
}

void take_place(Op& op, const Placement& from) {
  op.placement.ipu = from.ipu;
  op.placement.block = from.block;
  if (is_outer(op)) return;
  op.placement.stage = from.stage;
  op.placement.phase = from.phase;
}

// These return where `op` uses its operand, and where a value is made. For an op that runs graphs,
// that is in those graphs.
Placement used_at(const Regions& regions, const Op& op, size_t operand) {
  Placement place = op.placement;
  place.ipu = regions.operand_ipu(op, operand, place.ipu);
  return place;
}

Placement made_at(const Regions& regions, const Value& value) {
  const Op& op = *value.producer();
  Placement place = op.placement;
  for (size_t i = 0; i < op.result_count(); ++i) {
    if (op.result(i) == &value) place.ipu = regions.result_ipu(op, i, place.ipu);
  }
  return place;
}

class Placer {
  struct Home {
    const Op* user;
    Placement place;
  };

 public:
  explicit Placer(ir::Module& module) : module_(module) {}

  void run() {
    const std::vector<Op*> ops = module_.main().op_list();
    for (Op* op : ops) {
      // The copy's gradient assumed IPU 0, too.
      if (op->role() == ir::Role::kCopy && op->placement.ipu < 0) op->placement.ipu = 0;
      if (has_place(*op) && op->placement.ipu >= 0) note_uses(*op);
    }
    for (Op* op : ops) {
      if (has_place(*op) && op->placement.ipu < 0) place_by_operands(*op);
    }
    for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
      if (has_place(**it) && (*it)->placement.ipu < 0) place_by_users(**it);
    }
  }

 private:
  bool belongs_to_one_ipu(const Op& variable) const {
    const ir::StateSlot* slot = module_.find_state(slot_of(variable).text());
    return slot && !is_shared(*slot);
  }

  // Notes that the state and the inputs that `op` uses live where it uses them.
  void note_uses(const Op& op) {
    for (size_t i = 0; i < op.operand_count(); ++i) {
      const Value* value = op.operand(i);
      if (!value) continue;
      const Home use{&op, used_at(regions_, op, i)};
      const Op* variable = state_read(value);
      if (!variable) {
        if (!value->producer()) inputs_.emplace(value, use.place);
        continue;
      }
      auto [it, is_new] = homes_.try_emplace(&slot_of(*variable).text(), use);
      if (is_new || !belongs_to_one_ipu(*variable)) continue;
      if (it->second.place.ipu != use.place.ipu) refuse(*variable, it->second, use);
    }
  }

  [[noreturn]] void refuse(const Op& variable, const Home& first, const Home& second) const {
    const ir::StateSlot* slot = module_.find_state(slot_of(variable).text());
    throw support::UserError(str(
        "[partition] ", slot->kind, " '", slot->name, "' is used on IPU ", first.place.ipu, " by ",
        describe(*first.user), " and on IPU ", second.place.ipu, " by ", describe(*second.user),
        ". Layers that share a weight must be on one IPU: give their blocks the same ipu_id. In "
        "PopXL, ops.ipu_copy brings it to where it is read."));
  }

  void place_by_operands(Op& op) {
    std::optional<Placement> best;
    bool by_state = false;
    for (size_t i = 0; i < op.operand_count(); ++i) {
      const Value* value = op.operand(i);
      if (!value) continue;
      if (const Op* variable = state_read(value)) {
        auto home = homes_.find(&slot_of(*variable).text());
        if (home == homes_.end() || by_state) continue;
        if (!belongs_to_one_ipu(*variable) && !op.def().writes_operand(i)) continue;
        best = home->second.place;
        by_state = true;
      } else if (const auto place = by_state ? std::nullopt : place_of(value)) {
        // Takes the latest stage forward, but the earliest backward, where stages count down.
        const bool later =
            best && (op.forward_id != 0 ? place->stage < best->stage : place->stage > best->stage);
        if (!best || later) best = place;
      }
    }
    if (!best) return;
    take_place(op, *best);
    note_uses(op);
  }

  std::optional<Placement> place_of(const Value* value) const {
    if (const Op* op = value->producer()) {
      if (!has_place(*op) || op->placement.ipu < 0) return std::nullopt;
      return made_at(regions_, *value);
    }
    auto it = inputs_.find(value);
    return it == inputs_.end() ? std::nullopt : std::optional(it->second);
  }

  // Places `op` by state that has a home by now, else at the first user of its results. An op that
  // counts goes where the count is read first.
  void place_by_users(Op& op) {
    place_by_operands(op);
    if (op.placement.ipu >= 0) return;
    const Op* first = nullptr;
    for (int index : op.def().writes) {
      const Value* value = op.operand(static_cast<size_t>(index));
      const Op* variable = value ? state_read(value) : nullptr;
      auto home = variable ? homes_.find(&slot_of(*variable).text()) : homes_.end();
      if (home != homes_.end()) first = home->second.user;
    }
    for (size_t i = 0; i < op.result_count() && op.def().writes.empty(); ++i) {
      for (const ir::Use& use : op.result(i)->uses()) {
        if (use.op && (!first || use.op->is_before(first))) first = use.op;
      }
    }
    op.placement.ipu = 0;
    if (first && first->placement.ipu >= 0) take_place(op, first->placement);
    note_uses(op);
  }

  ir::Module& module_;
  Regions regions_;
  support::FlatMap<const std::string*, Home> homes_;         // by state: its first use
  std::unordered_map<const Value*, Placement> inputs_ = {};  // look-up only
};

// Finds where each value of main lies.
class Homes {
 public:
  explicit Homes(const ir::Module& module) : module_(module) {
    for (const Op* op : module.main().ops()) {
      if (!has_place(*op)) continue;
      for (int index : op->def().writes) {
        const Value* value = op->operand(static_cast<size_t>(index));
        if (const Op* variable = value ? state_read(value) : nullptr) {
          const auto operand = static_cast<size_t>(index);
          written_.try_emplace(&slot_of(*variable).text(), used_at(*op, operand));
        }
      }
      for (size_t i = 0; i < op->operand_count(); ++i) {
        const Value* value = op->operand(i);
        if (!value) continue;
        if (!value->producer()) settle(inputs_, value, used_at(*op, i));
        const Op* variable = state_read(value);
        if (variable) settle(states_, &slot_of(*variable).text(), used_at(*op, i));
      }
    }
  }

  Placement used_at(const Op& op, size_t operand) const {
    return partition::used_at(regions_, op, operand);
  }

  // Constants, weights and hyper-parameters need no copies: lowering knows them on each IPU.
  bool is_everywhere(const Value* value) const {
    const Op* op = ir::memory_root(value)->producer();
    if (!op || has_place(*op)) return false;
    return op->role() == ir::Role::kConstant || !is_copied_state(*op);
  }

  // Places the read of a scalar that changes: it lives on one IPU, wherever it is used.
  void settle_read(Op& variable) const {
    const std::optional<Placement> home = home_of(variable);
    if (home && is_copied_state(variable)) variable.placement.ipu = home->ipu;
  }

  Placement of(const Value* value) const {
    if (const Op* variable = state_read(value)) return home_of(*variable).value();
    return value->producer() ? made_at(regions_, *value) : inputs_.at(value);
  }

 private:
  // Returns the place where a state is written, or else first used; or nothing.
  std::optional<Placement> home_of(const Op& variable) const {
    const std::string* slot = &slot_of(variable).text();
    const auto* entry = written_.find(slot);
    if (!entry) entry = states_.find(slot);
    return entry ? std::optional(entry->second) : std::nullopt;
  }

  bool is_copied_state(const Op& variable) const {
    const Symbol name = slot_of(variable);
    const ir::StateSlot* slot = module_.find_state(name.text());
    return slot && is_shared(*slot) && written_.contains(&name.text());
  }

  template <typename Map, typename Key>
  static void settle(Map& homes, const Key& key, const Placement& use) {
    auto [it, is_new] = homes.try_emplace(key, use);
    if (!is_new && use.stage < it->second.stage) it->second = use;
  }

  const ir::Module& module_;
  Regions regions_;
  support::FlatMap<const std::string*, Placement> written_;  // by state: where it is written first
  support::FlatMap<const Value*, Placement> inputs_;
  support::FlatMap<const std::string*, Placement> states_;  // by state: its first use
};

class Copies {
 public:
  explicit Copies(ir::Module& module)
      : main_(module.main()), homes_(module), constants_(constant_values(main_)) {
    if (module.execution().forward_stages > 1) enlarged_ = enlarged_values(main_);
  }

  void run() {
    for (Op* op : main_.ops()) {
      if (op->role() == ir::Role::kState) homes_.settle_read(*op);
      if (!has_place(*op)) continue;
      for (size_t i = 0; i < op->operand_count(); ++i) {
        if (!op->operand(i)) continue;
        op->set_operand(i, on_ipu(op->operand(i), homes_.used_at(*op, i).ipu, *op));
      }
      for (int index : op->def().writes) copied_.erase(op->operand(static_cast<size_t>(index)));
    }
  }

 private:
  Value* on_ipu(Value* value, int ipu, Op& user) {
    if (homes_.is_everywhere(value)) return value;
    const Placement home = homes_.of(value);
    if (home.ipu == ipu) return value;
    if (runs_again(value, user)) return computed_again(value, ipu, user);
    Value*& copy = copied_[value][ipu];
    if (copy) return copy;
    ir::Builder builder(main_, &user);
    builder.copy_context(user);
    if (const Op* producer = state_read(value) ? nullptr : value->producer()) {
      builder.scope = producer->scope;
      builder.labels = producer->labels;
      builder.location = producer->location;
      builder.forward_id = producer->forward_id;
    }
    const auto context = builder.placement.context;
    builder.placement = home;
    builder.placement.context = context;
    copy = builder.value("ipu_copy", {value}, {{"to", int64_t{ipu}}});
    copy->set_name(value->name());
    sources_[copy] = value;
    return copy;
  }

  bool runs_again(const Value* value, const Op& user) const {
    return constants_.contains(value) || (is_inner(user) && enlarged_.contains(value));
  }

  // Computes the value in the user's stage. Of a constant, nothing is sent, and nothing waits in a
  // stash.
  Value* computed_again(Value* value, int ipu, Op& user) {
    if (!runs_again(value, user)) return on_ipu(value, ipu, user);
    const Op* op = value->producer();
    if (!has_place(*op)) return value;
    Placement place = user.placement;
    place.ipu = ipu;
    Op*& made = again_[{op, place.ipu, place.stage, place.context}];
    if (!made) {
      std::vector<Value*> operands;
      for (Value* operand : op->operands()) {
        // An operand may have become a copy on the IPU of `op`.
        const auto source = sources_.find(operand);
        Value* from = source == sources_.end() ? operand : source->second;
        operands.push_back(from ? computed_again(from, ipu, user) : nullptr);
      }
      std::vector<ir::Type> types;
      for (size_t i = 0; i < op->result_count(); ++i) types.push_back(op->result(i)->type());
      made = main_.insert(op->def(), std::move(operands), op->attrs(), std::move(types), &user);
      made->placement = place;
      made->take_origin(*op);
      made->forward_id = user.forward_id;
    }
    return made->result(value->index());
  }

  using AgainPlace = std::tuple<const Op*, int, int, ir::ExecutionContext>;

  ir::Graph& main_;
  Homes homes_;
  std::unordered_set<const Value*> constants_, enlarged_;
  std::map<AgainPlace, Op*> again_;                                 // look-up only
  std::unordered_map<const Value*, std::map<int, Value*>> copied_;  // look-up only
  std::unordered_map<const Value*, Value*> sources_;                // of copies; look-up only
};

}  // namespace

bool has_place(const Op& op) { return !op.def().is_leaf(); }

const Op* state_read(const Value* value) {
  const Op* op = ir::memory_root(value)->producer();
  return ir::slot_of(op) ? op : nullptr;
}

bool is_outer(const Op& op) {
  return op.placement.context == ir::ExecutionContext::kAccumulateOuter &&
         op.graph().module().execution().gradient_accumulation > 1;
}

bool is_inner(const Op& op) { return has_place(op) && !is_outer(op); }

std::unordered_set<const Value*> constant_values(const ir::Graph& graph) {
  std::unordered_set<const Value*> found;
  for (const Op* op : graph.ops()) {
    if (!ir::is_pure(*op)) continue;
    const auto& operands = op->operands();
    const bool constant =
        op->role() == ir::Role::kConstant ||
        (!operands.empty() && std::all_of(operands.begin(), operands.end(), [&](auto* operand) {
          return !operand || found.contains(operand);
        }));
    for (size_t i = 0; constant && i < op->result_count(); ++i) found.insert(op->result(i));
  }
  return found;
}

std::string describe(const Op& op) {
  std::string text = str("op '", op.name(), "'");
  if (!op.placement.block.empty()) text += str(" of block '", op.placement.block, "'");
  if (!op.location.empty()) return text + ir::place_text(op.location);
  return op.scope.empty() ? text : text + str(" (in ", op.scope, ")");
}

void place_ops(ir::Module& module) { Placer(module).run(); }

void insert_copies(ir::Module& module) { Copies(module).run(); }

void verify_placed(const ir::Module& module) {
  const Homes homes(module);
  for (const Op* op : module.main().ops()) {
    if (!has_place(*op)) continue;
    if (op->placement.ipu < 0) {
      throw support::InternalError(str("[placed] ", ir::print(*op), " has no IPU."));
    }
    for (size_t i = 0; i < op->operand_count(); ++i) {
      const Value* value = op->operand(i);
      if (!value || homes.is_everywhere(value)) continue;
      const int home = homes.of(value).ipu;
      if (home != homes.used_at(*op, i).ipu) {
        throw support::InternalError(
            str("[placed] ", ir::print(*op), " uses a value of IPU ", home, " without a copy."));
      }
    }
  }
}

}  // namespace poptorch::partition
