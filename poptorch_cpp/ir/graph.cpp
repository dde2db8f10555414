// Keeps operands and uses consistent, and the op list linked.
#include "ir/graph.hpp"

#include <algorithm>

#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::ir {

using support::InternalError;
using support::str;

std::string place_text(const Location& location) {
  return location.empty() ? "" : str(" (", location.file, ":", location.line, ")");
}

void Value::remove_use(Use use) {
  // Search the newest first: passes mostly drop their latest uses, and an erased op drops all.
  auto it = std::find(uses_.rbegin(), uses_.rend(), use);
  if (it == uses_.rend()) throw InternalError(str("[ir] use of %", name_, " is not recorded"));
  *it = uses_.back();
  uses_.pop_back();
}

void Value::set_type(Type type) {
  graph_->module_->note_change();
  type_ = std::move(type);
  if (producer_) producer_->checked_ = false;
  for (const Use& use : uses_) {
    if (use.op) use.op->checked_ = false;
  }
}

void Value::replace_all_uses_with(Value* other) {
  if (other == this) return;
  graph_->module_->note_change();
  for (const Use& use : uses_) {
    (use.op ? use.op->operands_[use.index] : graph_->outputs_[use.index]) = other;
    if (use.op && other->type_ != type_) use.op->checked_ = false;
  }
  other->uses_.insert(other->uses_.end(), uses_.begin(), uses_.end());
  uses_.clear();
}

namespace {

bool is_default(const OpDef& def, Symbol name, const Attr& value) {
  const AttrDef* row = def.find_attr(name);
  return row && row->default_value && same_attr(*row->default_value, value);
}

Attrs without_defaults(const OpDef& def, Attrs attrs) {
  std::vector<Symbol> dropped;
  for (const auto& [name, value] : attrs) {
    if (is_default(def, name, value)) dropped.push_back(name);
  }
  for (Symbol name : dropped) attrs.erase(name);
  return attrs;
}

}  // namespace

Op::Op(const OpDef& def) : def_(&def), name_(&def.name), role_(def.role) {}

void Op::set_operand(size_t i, Value* value) {
  if (i < operands_.size() && operands_[i] == value) return;
  auto index = static_cast<uint32_t>(i);
  note_change();
  if (operands_.size() <= i) operands_.resize(i + 1, nullptr);
  if (operands_[i]) operands_[i]->remove_use({this, index});
  operands_[i] = value;
  if (value) value->uses_.push_back({this, index});
}

bool Op::unused() const {
  return std::all_of(results_.begin(), results_.end(),
                     [](const auto& result) { return result->uses().empty(); });
}

void Op::note_change() {
  checked_ = false;
  graph_->module_->note_change();
}

void Op::set_attr(Symbol name, Attr value) {
  note_change();
  if (is_default(*def_, name, value)) {
    attrs_.erase(name);
  } else {
    attrs_.set(name, std::move(value));
  }
}

const Attr& Op::attr_value(Symbol name) const {
  if (const Attr* given = attrs_.find(name)) return *given;
  const AttrDef* row = def_->find_attr(name);
  if (row && row->default_value) return *row->default_value;
  throw InternalError(str("[ir] op '", def_->name, "' has no attribute '", name, "'"));
}

void Op::add_after(Op* op) {
  graph_->module_->note_change();
  if (std::find(after_.begin(), after_.end(), op) != after_.end()) return;
  after_.push_back(op);
  op->awaited_by_.push_back(this);
}

void Op::take_origin(const Op& op) {
  location = op.location;
  scope = op.scope;
  labels = op.labels;
}

void Op::take_unsaid(const Op& call) {
  if (placement == Placement{}) placement = call.placement;
  if (location.empty()) location = call.location;
  if (scope.empty()) scope = call.scope;
  if (labels.empty()) labels = call.labels;
}

bool Op::is_before(const Op* other) const {
  if (!graph_->order_valid_) graph_->renumber();
  return order_ < other->order_;
}

Graph::~Graph() {
  for (Op* op = first_; op;) {
    Op* next = op->next_;
    delete op;
    op = next;
  }
}

Value* Graph::add_input(Type type, std::string name, bool by_reference) {
  module_->note_change();
  auto index = static_cast<uint32_t>(inputs_.size());
  inputs_.emplace_back(new Value(this, nullptr, index, std::move(type)));
  inputs_.back()->name_ = std::move(name);
  inputs_.back()->by_reference_ = by_reference;
  return inputs_.back().get();
}

void Graph::erase_input(size_t index) {
  if (!inputs_[index]->uses().empty()) {
    throw InternalError(str("[ir] input ", index, " of @", name_, " is still used"));
  }
  module_->note_change();
  inputs_.erase(inputs_.begin() + static_cast<int64_t>(index));
  for (size_t i = index; i < inputs_.size(); ++i) inputs_[i]->index_ = static_cast<uint32_t>(i);
}

void Graph::set_outputs(std::vector<Value*> outputs) {
  module_->note_change();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i]->remove_use({nullptr, static_cast<uint32_t>(i)});
  }
  outputs_.clear();
  for (Value* value : outputs) add_output(value);
}

void Graph::set_output(size_t index, Value* value) {
  module_->note_change();
  Use use{nullptr, static_cast<uint32_t>(index)};
  outputs_[index]->remove_use(use);
  outputs_[index] = value;
  value->uses_.push_back(use);
}

void Graph::add_output(Value* value) {
  module_->note_change();
  value->uses_.push_back({nullptr, static_cast<uint32_t>(outputs_.size())});
  outputs_.push_back(value);
}

Op* Graph::insert(const OpDef& def, std::vector<Value*> operands, Attrs attrs,
                  std::vector<Type> result_types, Op* before) {
  support::check_interrupt();
  auto* op = new Op(def);
  op->id_ = module_->next_op_id();
  op->graph_ = this;
  op->operands_ = std::move(operands);
  for (uint32_t i = 0; i < op->operands_.size(); ++i) {
    if (op->operands_[i]) op->operands_[i]->uses_.push_back({op, i});
  }
  op->attrs_ = without_defaults(def, std::move(attrs));
  op->results_.reserve(result_types.size());
  for (uint32_t i = 0; i < result_types.size(); ++i) {
    op->results_.emplace_back(new Value(this, op, i, std::move(result_types[i])));
  }
  link(op, before);
  return op;
}

void Graph::erase(Op* op) {
  if (!op->unused()) {
    throw InternalError(str("[ir] op '", op->name(), "' is erased while its result is used"));
  }
  for (uint32_t i = 0; i < op->operands_.size(); ++i) {
    if (op->operands_[i]) op->operands_[i]->remove_use({op, i});
  }
  for (Op* waiting : op->awaited_by_) {
    std::erase(waiting->after_, op);
    for (Op* earlier : op->after_) waiting->add_after(earlier);
  }
  for (Op* earlier : op->after_) std::erase(earlier->awaited_by_, op);
  unlink(op);
  delete op;
}

void Graph::move_before(Op* op, Op* before) {
  if (op == before) return;
  unlink(op);
  link(op, before);
}

std::vector<Op*> Graph::op_list() const {
  std::vector<Op*> out;
  out.reserve(op_count_);
  for (Op* op : ops()) out.push_back(op);
  return out;
}

void Graph::link(Op* op, Op* before) {
  module_->note_change();
  op->next_ = before;
  op->previous_ = before ? before->previous_ : last_;
  (op->previous_ ? op->previous_->next_ : first_) = op;
  (before ? before->previous_ : last_) = op;
  ++op_count_;
  // Appending keeps the numbering, so most graphs are never renumbered.
  if (!before && order_valid_) {
    op->order_ = op->previous_ ? op->previous_->order_ + 1 : 0;
  } else {
    order_valid_ = false;
  }
}

void Graph::unlink(Op* op) {
  module_->note_change();
  (op->previous_ ? op->previous_->next_ : first_) = op->next_;
  (op->next_ ? op->next_->previous_ : last_) = op->previous_;
  --op_count_;
}

void Graph::renumber() const {
  uint64_t order = 0;
  for (Op* op = first_; op; op = op->next_) op->order_ = order++;
  order_valid_ = true;
}

}  // namespace poptorch::ir
