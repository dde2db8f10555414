// Finds out whether forward reads what an earlier call wrote into a tensor that is not state, and
// shows a trace so that it can be compared with another one.
#include <unordered_map>
#include <unordered_set>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "ir/text.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;

// Returns an op that a run needs and that depends on `initial`, other than by values for which
// `settled` is true; nullptr if there is none. `found` is set if an output of the graph depends on
// it.
template <typename Settled>
const ir::Op* reader_of(const ir::Value* initial, const Settled& settled, bool* found) {
  struct Step {
    const ir::Value* value;
    const ir::Op* first;  // the op that read `initial`
  };
  std::vector<Step> open{{initial, nullptr}};
  std::unordered_set<const ir::Value*> seen{initial};
  while (!open.empty()) {
    const auto [value, first] = open.back();
    open.pop_back();
    if (settled(value)) continue;
    for (const ir::Use& use : value->uses()) {
      const ir::Op* reader = first ? first : use.op;
      if (!use.op || use.op->def().has_effect() || !use.op->def().writes.empty()) {
        *found = true;
        return reader;
      }
      for (size_t i = 0; i < use.op->result_count(); ++i) {
        const ir::Value* result = use.op->result(i);
        if (seen.insert(result).second) open.push_back({result, reader});
      }
    }
  }
  return nullptr;
}

// Returns a text that identifies the literal.
std::string digest(const ir::Literal& literal) {
  const std::string_view bytes(reinterpret_cast<const char*>(literal.data()),
                               static_cast<size_t>(literal.type().bytes()));
  return str(literal.type(), "#", std::hash<std::string_view>()(bytes));
}

bool is_equal(const ir::Literal* a, const ir::Literal* b) { return a && b && *a == *b; }

}  // namespace

std::vector<at::Tensor> Tracer::written_members() const {
  std::vector<at::Tensor> written;
  for (const Member& member : members_) {
    if (member.root->written()) written.push_back(member.tensor);
  }
  return written;
}

std::string Tracer::text(const std::vector<at::Tensor>& tensors) {
  std::unordered_map<const ir::Value*, std::string> names;
  const auto name_of = [&](const ir::Value* value) {
    std::string& name = names[value];
    if (!name.empty() || !value) return name.empty() ? "none" : name;
    const ir::Literal* known = known_values_.of(value);
    return name = known ? digest(*known) : str("%", names.size());
  };
  std::string text;
  for (const auto& graph : module_->graphs()) {
    text += str("graph ", graph->name(), "\n");
    for (const ir::Op* op : graph->ops()) {
      if (op->result_count() > 0 && known_values_.of(op->result())) continue;
      text += op->name();
      for (const ir::Value* operand : op->operands()) text += " " + name_of(operand);
      for (size_t i = 0; i < op->result_count(); ++i) {
        text += str(" -> ", name_of(op->result(i)), ": ", op->result(i)->type());
      }
      for (const auto& [key, value] : op->attrs()) text += str(" ", key, "=", ir::attr_text(value));
      text += str(" ipu ", op->placement.ipu, " stage ", op->placement.stage);
      if (!op->location.empty()) text += ir::place_text(op->location);
      text += "\n";
    }
  }
  for (const at::Tensor& tensor : tensors) {
    const Root* root = memory_.find(tensor);
    text += root ? name_of(root->value()) : is_dataless(tensor) ? "" : digest(literal_of(tensor));
    text += str(" ", ir::shape_text(tensor.sizes().vec()), " at ", tensor.storage_offset(), "\n");
  }
  return text;
}

void Tracer::check_members() {
  for (const Member& member : members_) {
    const ir::Value* last = member.root->value();
    if (!member.root->written() || last == member.initial) continue;
    bool reads = false;
    const ir::Op* reader = nullptr;
    ir::Op* constant = member.initial->producer();
    const ir::Literal* known = known_values_.of(last);
    if (known) {
      // Later calls begin with `known`: values that this does not change are the same in all calls.
      const ir::Attr before = constant->attr_value("value");
      KnownValues later(regions_);
      constant->set_attr("value", *known);
      later.of(last);
      const auto settled = [&](const ir::Value* value) {
        return value != member.initial && is_equal(known_values_.of(value), later.of(value));
      };
      reader = reader_of(member.initial, settled, &reads);
      constant->set_attr("value", before);
    } else {
      reader = reader_of(member.initial, [](const ir::Value*) { return false; }, &reads);
    }
    if (!reads) continue;
    const ir::Location line = reader ? reader->location : ir::Location{};
    throw support::UserError(str(
        "[state] forward reads a tensor of shape ", ir::shape_text(member.tensor.sizes().vec()),
        ", which an earlier call wrote",
        ir::place_text(line.empty() && last->producer() ? last->producer()->location : line),
        ". Only parameters and buffers keep their values on the device between calls. Make it a "
        "buffer (register_buffer) and write it with copy_()."));
  }
}

}  // namespace poptorch::frontend
