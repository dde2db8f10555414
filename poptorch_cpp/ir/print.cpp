// The printer of text.hpp. Printing changes nothing: a table beside the graph makes names unique.
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ir/execution.hpp"
#include "ir/module.hpp"
#include "ir/roles.hpp"
#include "ir/text.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::join;
using support::quoted;
using support::str;

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/';
}

// Creates unique, parseable names for the values and labels of one graph.
class Names {
 public:
  explicit Names(const Graph& graph) {
    for (const auto& input : graph.inputs()) add(input.get());
    std::unordered_set<const Op*> named;
    std::unordered_map<uint64_t, const Op*> earlier_ops;  // by id
    for (const Op* op : graph.ops()) {
      named.insert(op->after().begin(), op->after().end());
      if (op->forward_id != 0) {
        const auto forward = earlier_ops.find(op->forward_id);
        if (forward != earlier_ops.end()) named.insert(forwards_[op] = forward->second);
      }
      earlier_ops[op->id()] = op;
    }
    for (const Op* op : graph.ops()) {
      for (size_t i = 0; i < op->result_count(); ++i) add(op->result(i));
      if (op->result_count() == 0 && named.count(op)) {
        labels_[op] = str("^", unique(op->name()));
      }
    }
  }

  std::string operator()(const Value* value) const {
    if (!value) return "_";
    auto it = values_.find(value);
    return it == values_.end() ? "%<foreign>" : "%" + it->second;
  }
  std::string after(const Op* op) const {
    if (op->result_count()) return (*this)(op->result(0));
    auto it = labels_.find(op);
    return it == labels_.end() ? "^<foreign>" : it->second;
  }
  // Returns the forward op of a backward one; nullptr if it was deleted.
  const Op* forward_of(const Op* op) const {
    auto it = forwards_.find(op);
    return it == forwards_.end() ? nullptr : it->second;
  }
  bool labelled(const Op* op) const { return labels_.count(op) != 0; }

 private:
  void add(const Value* value) {
    std::string hint = value->name();
    if (hint.empty()) hint = value->producer() ? value->producer()->name() : "input";
    values_[value] = unique(hint);
  }

  std::string unique(const std::string& hint) {
    std::string base;
    for (char c : hint) base += plain(c) ? c : '_';
    if (base.empty() || base == "_") base = "v";
    if (taken_.insert(base).second) return base;
    // The counter per base keeps the search for a free suffix short.
    for (int& n = next_[base];;) {
      std::string candidate = str(base, "_", ++n);
      if (taken_.insert(candidate).second) return candidate;
    }
  }

  std::unordered_map<const Value*, std::string> values_;
  std::unordered_map<const Op*, std::string> labels_;
  std::unordered_map<const Op*, const Op*> forwards_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;
};

std::string elided(const Attr& attr, int64_t limit) {
  const auto* literal = std::get_if<Literal>(&attr);
  if (literal && literal->type().elements() > limit) {
    return str("dense<", literal->type(), ": ...>");
  }
  return attr_text(attr);
}

std::string attrs_text(const Attrs& attrs, const PrintOptions& options) {
  std::string text;
  for (const auto& [key, value] : attrs) {
    text += text.empty() ? " {" : ", ";
    text += key.text() + "=" + elided(value, options.elide_literals_above);
  }
  return text.empty() ? text : text + "}";
}

std::string placement_text(const Placement& placement) {
  std::string text;
  auto add = [&](const std::string& item) { text += (text.empty() ? " @[" : " ") + item; };
  if (placement.ipu >= 0) add("ipu=" + std::to_string(placement.ipu));
  if (placement.stage >= 0) add("stage=" + std::to_string(placement.stage));
  if (placement.phase >= 0) add("phase=" + std::to_string(placement.phase));
  if (!placement.block.empty()) add("block=" + quoted(placement.block.text()));
  if (placement.io_tiles) add("io_tiles");
  if (placement.context == ExecutionContext::kAccumulateOuter) add("accumulate_outer");
  return text.empty() ? text : text + "]";
}

// Appends a type; without streams, which take longer than all the rest.
void add_type(std::string& text, const Type& type) {
  text += name(type.dtype);
  text += '[';
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(type.shape[i]);
  }
  text += ']';
}

std::string op_text(const Op& op, const Names& names, const PrintOptions& options) {
  std::string text;
  if (options.ids) text += "#" + std::to_string(op.id()) + " ";
  for (size_t i = 0; i < op.result_count(); ++i) text += (i > 0 ? ", " : "") + names(op.result(i));
  if (names.labelled(&op)) text += (op.result_count() > 0 ? ", " : "") + names.after(&op);
  if (op.result_count() > 0 || names.labelled(&op)) text += " = ";
  text += op.name() + "(";
  for (size_t i = 0; i < op.operand_count(); ++i) {
    text += (i > 0 ? ", " : "") + names(op.operand(i));
  }
  text += ")" + attrs_text(op.attrs(), options);
  for (size_t i = 0; i < op.result_count(); ++i) {
    text += i > 0 ? ", " : " : ";
    add_type(text, op.result(i)->type());
  }
  text += placement_text(op.placement);
  if (!op.after().empty()) {
    std::vector<std::string> earlier;
    for (const Op* other : op.after()) earlier.push_back(names.after(other));
    text += " after(" + join(earlier, ", ") + ")";
  }
  if (options.forwards && op.forward_id != 0) {
    const Op* forward = names.forward_of(&op);
    text += forward ? " grad(" + names.after(forward) + ")" : " grad";
  }
  if (options.scopes && !op.scope.empty()) text += " scope(" + quoted(op.scope.text()) + ")";
  if (!op.labels.empty()) text += " labels(" + quoted(op.labels.text()) + ")";
  if (options.locations && !op.location.empty()) {
    text += str(" loc(", quoted(op.location.file.text()), ":", op.location.line, ")");
  }
  return text;
}

void print_graph(std::ostringstream& out, const Graph& graph, const PrintOptions& options) {
  Names names(graph);
  std::vector<std::string> inputs, outputs, types;
  for (const auto& input : graph.inputs()) {
    inputs.push_back(
        str(names(input.get()), ": ", input->by_reference() ? "&" : "", input->type()));
  }
  for (const Value* output : graph.outputs()) {
    outputs.push_back(names(output));
    types.push_back(str(output->type()));
  }
  out << "graph " << graph_text(graph.name()) << "(" << join(inputs, ", ") << ") -> ("
      << join(types, ", ") << ") {\n";
  for (const Op* op : graph.ops()) out << "  " << op_text(*op, names, options) << "\n";
  out << "  return" << (outputs.empty() ? "" : " ") << join(outputs, ", ") << "\n}\n";
}

std::string state_attrs(const StateSlot& slot, const PrintOptions& options) {
  Attrs attrs{{"kind", slot.kind}};
  if (slot.group_size) attrs.set("group_size", int64_t{slot.group_size});
  if (slot.group_stride != 1) attrs.set("group_stride", int64_t{slot.group_stride});
  if (slot.initial) attrs.set("initial", *slot.initial);
  return attrs_text(attrs, options);
}

// Orders graphs so that text names a graph after its definition, whenever the graph was made.
void add_callees_first(const Graph& graph, std::unordered_set<const Graph*>& entered,
                       std::vector<const Graph*>& order) {
  if (!entered.insert(&graph).second) return;
  for (const Op* op : graph.ops()) {
    for (const auto& [name, runs] : named_graphs(*op)) {
      const Graph* callee = graph.module().find_graph(name);
      if (callee) add_callees_first(*callee, entered, order);
    }
  }
  order.push_back(&graph);
}

}  // namespace

std::vector<std::pair<uint64_t, std::string>> op_lines(const Module& module) {
  constexpr PrintOptions kForReaders{.elide_literals_above = 16};
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (const auto& graph : module.graphs()) {
    const Names names(*graph);
    for (const Op* op : graph->ops()) {
      lines.emplace_back(op->id(), op_text(*op, names, kForReaders));
    }
  }
  return lines;
}

std::string print(const Module& module, const PrintOptions& options) {
  std::ostringstream out;
  for (const ExecutionLine& line : lines_of(module.execution())) {
    out << line.keyword << (line.name.empty() ? "" : " " + quoted(line.name))
        << attrs_text(line.attrs, options) << "\n";
  }
  for (const auto& state : module.states()) {
    out << "state " << quoted(state->name.text()) << " : " << state->type
        << state_attrs(*state, options) << "\n";
  }
  for (const auto& stream : module.streams()) {
    out << "stream " << quoted(stream->name.text()) << " : " << stream->type
        << " {to_device=" << (stream->to_device ? "true" : "false") << "}\n";
  }
  for (const auto& buffer : module.remote_buffers()) {
    out << "remote " << quoted(buffer->name.text()) << " : " << buffer->type
        << " {entries=" << buffer->entries << "}\n";
  }
  std::unordered_set<const Graph*> entered;
  std::vector<const Graph*> order;
  for (const auto& graph : module.graphs()) add_callees_first(*graph, entered, order);
  for (const Graph* graph : order) print_graph(out, *graph, options);
  return out.str();
}

std::string print(const Graph& graph, const PrintOptions& options) {
  std::ostringstream out;
  print_graph(out, graph, options);
  return out.str();
}

std::string print(const Op& op) {
  const PrintOptions options{.forwards = false, .elide_literals_above = 8};
  return op_text(op, Names(op.graph()), options);
}

}  // namespace poptorch::ir
