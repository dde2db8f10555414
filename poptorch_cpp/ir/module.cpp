// Declares, clones and inlines.
#include "ir/module.hpp"

#include <algorithm>
#include <utility>

#include "ir/execution.hpp"
#include "support/error.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::InternalError;
using support::str;
using support::UserError;

template <typename T>
T* find_named(const std::vector<std::unique_ptr<T>>& items, Symbol name) {
  for (const auto& item : items) {
    if (item->name == name) return item.get();
  }
  return nullptr;
}

std::string defect_of_name(Symbol name) {
  if (name.empty()) return "its name is empty.";
  const size_t at = support::find_non_utf8(name.text());
  return at == std::string::npos ? "" : str("its name is not UTF-8 from byte ", at, " on.");
}

std::string defect_of_named(Symbol name, const Type& type) {
  const std::string defect = defect_of_name(name);
  return defect.empty() ? defect_of(type.shape) : defect;
}

template <typename T>
T& declare(std::vector<std::unique_ptr<T>>& items, T* known, T item, const char* what) {
  if (!known) {
    if (const std::string defect = defect_of(item); !defect.empty()) {
      throw UserError(str("[module] ", what, " ", support::quoted(item.name.text()), ": ", defect));
    }
    items.push_back(std::make_unique<T>(std::move(item)));
    return *items.back();
  }
  if (known->type != item.type) {
    throw UserError(str("[module] ", what, " '", item.name, "' is declared as ", known->type,
                        " and again as ", item.type, ". Give one of them another name."));
  }
  return *known;
}

using ValueMap = support::FlatMap<const Value*, Value*>;
using OpMap = support::FlatMap<const Op*, Op*>;

// Copies one op at the end or before `before`; operands are looked up in `values`.
Op* copy_op(const Op& from, Graph& to, Op* before, ValueMap& values, OpMap& ops) {
  std::vector<Value*> operands;
  for (Value* operand : from.operands()) {
    operands.push_back(operand ? values.at(operand) : nullptr);
  }
  std::vector<Type> types;
  for (size_t i = 0; i < from.result_count(); ++i) types.push_back(from.result(i)->type());
  Op* op = to.insert(from.def(), std::move(operands), from.attrs(), std::move(types), before);
  if (from.is_checked()) op->mark_checked();
  op->placement = from.placement;
  op->take_origin(from);
  op->forward_id = from.forward_id;
  for (Op* earlier : from.after()) {
    if (auto it = ops.find(earlier); it != ops.end()) op->add_after(it->second);
  }
  for (size_t i = 0; i < from.result_count(); ++i) {
    op->result(i)->set_name(from.result(i)->name());
    values[from.result(i)] = op->result(i);
  }
  ops[&from] = op;
  return op;
}

}  // namespace

std::string defect_of(const StateSlot& slot) {
  static constexpr std::string_view kKinds[] = {"parameter",   "buffer",          "optimiser_state",
                                                "accumulator", "hyper_parameter", "rng"};
  if (std::find(std::begin(kKinds), std::end(kKinds), slot.kind) == std::end(kKinds)) {
    return str("'", slot.kind, "' is not a kind of state. The kinds are ",
               support::join(kKinds, ", "), ".");
  }
  if (slot.group_size < 0 || slot.group_size > kMaxReplicas || slot.group_stride < 1 ||
      slot.group_stride > kMaxReplicas) {
    return str("groups of ", slot.group_size, " replicas, ", slot.group_stride,
               " apart, are not possible. A size is 0 (all replicas) to ", kMaxReplicas,
               ", a stride 1 to ", kMaxReplicas, ".");
  }
  if (slot.initial && slot.initial->type() != slot.type) {
    return str("its initial value is ", slot.initial->type(), ", not ", slot.type, ".");
  }
  return defect_of_named(slot.name, slot.type);
}

std::string defect_of(const HostStream& stream) {
  return defect_of_named(stream.name, stream.type);
}

std::string defect_of(const RemoteBuffer& buffer) {
  Shape rows = buffer.type.shape;
  rows.insert(rows.begin(), buffer.entries);
  if (buffer.entries < 1) return str("it has ", buffer.entries, " entries, not at least 1.");
  return defect_of_named(buffer.name, {buffer.type.dtype, rows});
}

Module::Module(const Registry& registry)
    : registry_(&registry), execution_(std::make_unique<Execution>()) {}

Module::~Module() = default;

Graph& Module::add_graph(Symbol name) {
  if (const std::string defect = defect_of_name(name); !defect.empty()) {
    throw UserError(str("[module] graph ", support::quoted(name.text()), ": ", defect));
  }
  if (find_graph(name)) throw UserError(str("[module] graph @", name, " is defined twice."));
  note_change();
  graphs_.emplace_back(new Graph(this, name));
  graphs_by_name_[name.text()] = graphs_.back().get();
  return *graphs_.back();
}

Graph* Module::find_graph(Symbol name) const {
  auto it = graphs_by_name_.find(name.text());
  return it == graphs_by_name_.end() ? nullptr : it->second;
}

Graph& Module::main() const {
  if (Graph* graph = find_graph("main")) return *graph;
  throw InternalError("[module] there is no graph @main");
}

void Module::erase_graph(Symbol name) {
  note_change();
  graphs_by_name_.erase(name.text());
  std::erase_if(graphs_, [&](const auto& graph) { return graph->name() == name; });
}

StateSlot& Module::add_state(StateSlot slot) {
  note_change();
  StateSlot* known = find_state(slot.name);
  StateSlot& out = declare(states_, known, std::move(slot), "state");
  states_by_name_[out.name.text()] = &out;
  return out;
}

HostStream& Module::add_stream(HostStream stream) {
  HostStream* known = find_stream(stream.name);
  return declare(streams_, known, std::move(stream), "stream");
}

RemoteBuffer& Module::add_remote_buffer(RemoteBuffer buffer) {
  RemoteBuffer* known = find_remote_buffer(buffer.name);
  return declare(buffers_, known, std::move(buffer), "remote buffer");
}

StateSlot* Module::find_state(Symbol name) const {
  auto it = states_by_name_.find(name.text());
  return it == states_by_name_.end() ? nullptr : it->second;
}

HostStream* Module::find_stream(Symbol name) const { return find_named(streams_, name); }
RemoteBuffer* Module::find_remote_buffer(Symbol name) const { return find_named(buffers_, name); }

uint64_t Module::next_op_id() {
  const uint64_t id = given_op_id_ ? std::exchange(given_op_id_, 0) : next_op_id_;
  next_op_id_ = std::max(next_op_id_, id + 1);
  return id;
}

std::unique_ptr<Module> Module::clone() const {
  auto out = std::make_unique<Module>(*registry_);
  *out->execution_ = *execution_;
  for (const auto& state : states_) out->add_state(*state);
  for (const auto& stream : streams_) out->add_stream(*stream);
  for (const auto& buffer : buffers_) out->add_remote_buffer(*buffer);
  for (const auto& graph : graphs_) {
    Graph& copy = out->add_graph(graph->name());
    ValueMap values;
    OpMap ops;
    values.reserve(graph->op_count() * 2);
    ops.reserve(graph->op_count());
    for (const auto& input : graph->inputs()) {
      values[input.get()] = copy.add_input(input->type(), input->name(), input->by_reference());
    }
    for (Op* op : graph->ops()) {
      out->give_next_op_id(op->id());
      copy_op(*op, copy, nullptr, values, ops);
    }
    for (Value* output : graph->outputs()) copy.add_output(values.at(output));
  }
  out->next_op_id_ = next_op_id_;
  return out;
}

std::vector<Value*> copy_ops(const Graph& from, Graph& to, const std::vector<Value*>& arguments,
                             Op* before) {
  ValueMap values;
  OpMap ops;
  for (size_t i = 0; i < from.inputs().size(); ++i) {
    values[from.inputs()[i].get()] = arguments[i];
  }
  for (Op* op : from.ops()) copy_op(*op, to, before, values, ops);
  std::vector<Value*> outputs;
  for (Value* output : from.outputs()) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace poptorch::ir
