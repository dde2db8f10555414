// Checks rows, and holds the registry.
#include "ir/op_def.hpp"

#include <algorithm>
#include <map>

#include "ir/graph.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::InternalError;
using support::str;
using support::UserError;

// Parses "bias: float?" into {bias, float, optional}. `earlier` are the operands before it.
OperandDef parse_operand(const std::string& op, std::string text,
                         const std::vector<OperandDef>& earlier) {
  using Rule = OperandDef::Rule;
  static const std::map<std::string, Rule> kClasses = {{"any", Rule::kAny},
                                                       {"float", Rule::kFloat},
                                                       {"int", Rule::kInt},
                                                       {"bool", Rule::kBool},
                                                       {"number", Rule::kNumber}};
  OperandDef operand;
  if (!text.empty() && text.back() == '?') operand.optional = true;
  if (!text.empty() && text.back() == '*') operand.variadic = true;
  if (operand.optional || operand.variadic) text.pop_back();
  auto colon = text.find(": ");
  operand.name = text.substr(0, colon);
  if (colon != std::string::npos) operand.constraint = text.substr(colon + 2);
  const bool same = operand.constraint[0] == '=';
  const std::string named = operand.constraint.substr(same ? 1 : 0);
  const auto other = std::find_if(earlier.begin(), earlier.end(), [&](const OperandDef& one) {
    return one.name == named && !one.optional;
  });
  if (const auto known = kClasses.find(operand.constraint); known != kClasses.end()) {
    operand.rule = known->second;
  } else if (const auto dtype = dtype_from_name(operand.constraint)) {
    operand.rule = Rule::kDType;
    operand.dtype = *dtype;
  } else if (other != earlier.end()) {
    operand.rule = same ? Rule::kSame : Rule::kLike;
    operand.other = static_cast<size_t>(other - earlier.begin());
  } else {
    operand.name.clear();
  }
  if (operand.name.empty()) {
    throw InternalError(str("[registry] op '", op, "' has a malformed operand '", text, "'"));
  }
  return operand;
}

// The attribute that an op of the role must have.
struct RoleAttr {
  Role role;
  Symbol name;
  AttrType type;
};

const std::vector<RoleAttr>& role_attrs() {
  static const std::vector<RoleAttr> rows = {{Role::kConstant, "value", AttrType::kLiteral},
                                             {Role::kState, "name", AttrType::kString},
                                             {Role::kCopy, "to", AttrType::kInt},
                                             {Role::kGradient, "parameter", AttrType::kString},
                                             {Role::kCall, "gradient", AttrType::kGraph}};
  return rows;
}

// Returns why the row does not fit its role; nullptr if it does.
const char* defect_of_role(const OpDef& def) {
  const bool runs = def.role == Role::kCall || def.role == Role::kRegion;
  if (runs != def.runs_graphs()) return "is a call or a region and names no graph, or the reverse";
  if (runs && (def.operand_defs.empty() || !def.operand_defs.back().variadic)) {
    return "has no operands for the inputs of its graphs";
  }
  const AttrDef* count = def.find_attr("count");
  if (def.role == Role::kRegion && def.bodies.size() == 1 &&
      !(count && count->type == AttrType::kInt)) {
    return "runs one graph and has no count of rounds";
  }
  if ((def.role == Role::kOpaque) == def.provider.empty()) {
    return "has a provider and is not opaque, or the reverse";
  }
  for (const RoleAttr& row : role_attrs()) {
    const AttrDef* attr = def.role == row.role ? def.find_attr(row.name) : nullptr;
    if (def.role == row.role && (!attr || attr->type != row.type)) {
      return "lacks the attribute of its role";
    }
  }
  return nullptr;
}

}  // namespace

const Type& InferContext::operand(size_t i) const {
  if (!has(i)) {
    throw InternalError(str("[", def_.name, "] the type rule reads absent operand ", i));
  }
  return *operands_[i];
}

const Attr& InferContext::attr_value(Symbol name) const {
  if (const Attr* given = attrs_.find(name)) return *given;
  const AttrDef* row = def_.find_attr(name);
  if (row && row->default_value) return *row->default_value;
  throw InternalError(str("[", def_.name, "] has no attribute '", name, "'"));
}

void InferContext::fail(const std::string& text) const {
  throw UserError(str("[", def_.name, "] ", text));
}

const AttrDef* OpDef::find_attr(Symbol attr) const {
  for (const auto& row : attrs) {
    if (row.name == attr) return &row;
  }
  return nullptr;
}

bool OpDef::writes_operand(size_t i) const {
  return std::find(writes.begin(), writes.end(), static_cast<int>(i)) != writes.end();
}

bool OpDef::stops_gradient() const {
  const auto* none = std::get_if<NoGradient>(&grad);
  return none && none->intended;
}

void Registry::add(OpDef def) {
  auto refuse = [&](const std::string& text) {
    throw InternalError(str("[registry] op '", def.name, "' ", text));
  };
  if (def.name.empty()) refuse("has no name");
  if (find(def.name)) refuse("is registered twice");
  if (def.doc.empty()) refuse("has no doc");
  if (!def.infer) refuse("has no type rule");
  if (!def.cost) refuse("has no cost rule");
  if (std::holds_alternative<std::monostate>(def.grad)) refuse("has neither gradient nor reason");
  def.operand_defs.clear();
  for (size_t i = 0; i < def.inputs.size(); ++i) {
    def.operand_defs.push_back(parse_operand(def.name, def.inputs[i], def.operand_defs));
    if (def.operand_defs.back().variadic && i + 1 != def.inputs.size()) {
      refuse("has a variadic operand that is not the last");
    }
  }
  for (const auto& attr : def.attrs) {
    if (attr.default_value && type_of(*attr.default_value) != attr.type) {
      refuse("has a default of another type for attribute '" + attr.name.text() + "'");
    }
    if (attr.type == AttrType::kGraph && !attr.default_value) def.bodies.push_back(attr.name);
  }
  for (int written : def.writes) {
    if (written < 0 || written >= static_cast<int>(def.operand_defs.size())) {
      refuse("writes an operand that it does not have");
    }
  }
  if (const char* defect = defect_of_role(def)) refuse(defect);
  std::string key = def.name;
  rows_.emplace(std::move(key), std::make_unique<OpDef>(std::move(def)));
}

const OpDef* Registry::find(std::string_view name) const {
  auto it = rows_.find(std::string(name));
  return it == rows_.end() ? nullptr : it->second.get();
}

const OpDef& Registry::get(std::string_view name) const {
  if (const OpDef* def = find(name)) return *def;
  std::vector<std::string> names;
  for (const OpDef* def : all()) names.push_back(def->name);
  throw InternalError(str("[registry] there is no op '", name, "'; the closest is '",
                          support::closest_name(name, names), "'"));
}

std::vector<const OpDef*> Registry::all() const {
  std::vector<const OpDef*> out;
  for (const auto& [name, def] : rows_) out.push_back(def.get());
  std::sort(out.begin(), out.end(),
            [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return out;
}

}  // namespace poptorch::ir
