#include "ir/row_checks.hpp"

#include <algorithm>
#include <cmath>

#include "ir/op_def.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::str;
using support::UserError;

// Describes the expected operand for the message.
std::string wanted(const OpDef& def, const OperandDef& row, const Type& other) {
  const std::string& name = def.operand_defs[row.other].name;
  if (row.rule == OperandDef::Rule::kSame) return str(other, " as '", name, "'");
  if (row.rule == OperandDef::Rule::kLike) return str(other.dtype, " as '", name, "'");
  return row.constraint;
}

bool fits(const OperandDef& row, const Type& type, const Type& other) {
  switch (row.rule) {
    case OperandDef::Rule::kAny:
      return true;
    case OperandDef::Rule::kFloat:
      return is_float(type.dtype) || is_complex(type.dtype);
    case OperandDef::Rule::kInt:
      return is_integer(type.dtype);
    case OperandDef::Rule::kBool:
      return type.dtype == DType::kBool;
    case OperandDef::Rule::kNumber:
      return type.dtype != DType::kBool;
    case OperandDef::Rule::kDType:
      return type.dtype == row.dtype;
    case OperandDef::Rule::kLike:
      return type.dtype == other.dtype;
    case OperandDef::Rule::kSame:
      return type == other;
  }
  return false;
}

// Avoids doubles for integers: those beyond 2^53 would lose their low bits.
bool in_range(const Range& range, int64_t value) {
  return (range.least == -INFINITY || value >= static_cast<int64_t>(range.least)) &&
         (range.most == INFINITY || value <= static_cast<int64_t>(range.most));
}

bool in_range(const Range& range, double value) {
  return value >= range.least && value <= range.most;
}

std::string bound_text(double bound) {
  const bool whole = std::fabs(bound) < 0x1p63 && bound == std::floor(bound);
  return whole ? std::to_string(static_cast<int64_t>(bound)) : support::float_text(bound);
}

template <typename T>
void check_range(const OpDef& def, const AttrDef& row, const Range& range, T value) {
  if (in_range(range, value)) return;
  throw UserError(str("[", def.name, "] attribute '", row.name, "' must be at least ",
                      bound_text(range.least), " and at most ", bound_text(range.most), " but is ",
                      attr_text(Attr(value)), "."));
}

void check_ranges(const OpDef& def, const AttrDef& row, const Attr& value) {
  static constexpr double kMost = kMaxElements;
  static constexpr Range kIntegers{-kMost, kMost};
  if (const auto* number = std::get_if<int64_t>(&value)) {
    check_range(def, row, row.range.value_or(kIntegers), *number);
  } else if (const auto* numbers = std::get_if<Ints>(&value)) {
    for (int64_t one : *numbers) check_range(def, row, row.range.value_or(kIntegers), one);
  } else if (!row.range) {
    return;
  } else if (const auto* real = std::get_if<double>(&value)) {
    check_range(def, row, *row.range, *real);
  } else if (const auto* reals = std::get_if<Floats>(&value)) {
    for (double one : *reals) check_range(def, row, *row.range, one);
  }
}

void check_allowed(const OpDef& def, const AttrDef& row, const Attr& value) {
  if (row.allowed.empty()) return;
  const auto& text = std::get<std::string>(value);
  if (std::find(row.allowed.begin(), row.allowed.end(), text) != row.allowed.end()) return;
  throw UserError(str("[", def.name, "] attribute '", row.name, "' must be one of ",
                      support::join(row.allowed, ", "), " but is '", text, "'."));
}

}  // namespace

void check_operands(const OpDef& def, const std::vector<const Type*>& operands) {
  const auto& rows = def.operand_defs;
  const bool variadic = !rows.empty() && rows.back().variadic;
  if (operands.size() > rows.size() && !variadic) {
    throw UserError(
        str("[", def.name, "] takes ", rows.size(), " operands but got ", operands.size(), "."));
  }
  for (size_t i = 0; i < std::max(operands.size(), rows.size()); ++i) {
    const OperandDef& row = rows[std::min(i, rows.size() - 1)];
    const Type* type = i < operands.size() ? operands[i] : nullptr;
    if (!type) {
      if (row.optional || (row.variadic && i >= operands.size())) continue;
      throw UserError(str("[", def.name, "] operand '", row.name, "' is missing."));
    }
    // The operand that a rule refers to is required, so it was checked before this one.
    const bool relative =
        row.rule == OperandDef::Rule::kLike || row.rule == OperandDef::Rule::kSame;
    const Type& other = relative ? *operands[row.other] : *type;
    if (!fits(row, *type, other)) {
      throw OperandTypeError(str("[", def.name, "] operand '", row.name, "' must be ",
                                 wanted(def, row, other), " but is ", *type, ".",
                                 row.rule == OperandDef::Rule::kLike ? " Cast one of them." : ""));
    }
  }
}

void check_attrs(const OpDef& def, const Attrs& attrs) {
  for (const auto& [key, value] : attrs) {
    const AttrDef* row = def.find_attr(key);
    if (!row) {
      std::vector<Symbol> names;
      for (const auto& known : def.attrs) names.push_back(known.name);
      throw UserError(str("[", def.name, "] has no attribute '", key,
                          "'; it has: ", names.empty() ? "none" : support::join(names, ", "), "."));
    }
    if (type_of(value) != row->type) {
      throw UserError(str("[", def.name, "] attribute '", key, "' must be ", name(row->type),
                          " but is ", attr_text(value), "."));
    }
    check_allowed(def, *row, value);
    check_ranges(def, *row, value);
  }
  for (const auto& row : def.attrs) {
    if (!row.default_value && !attrs.find(row.name)) {
      throw UserError(str("[", def.name, "] attribute '", row.name, "' is required."));
    }
  }
}

void check_results(const OpDef& def, const std::vector<Type>& results) {
  if (!def.variadic_outputs() && results.size() != def.outputs.size()) {
    throw UserError(
        str("[", def.name, "] gives ", def.outputs.size(), " results, not ", results.size(), "."));
  }
  for (const Type& type : results) {
    const std::string defect = defect_of(type.shape);
    if (!defect.empty()) throw UserError(str("[", def.name, "] its result: ", defect));
  }
}

}  // namespace poptorch::ir
