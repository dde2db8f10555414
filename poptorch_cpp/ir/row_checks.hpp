// What a row says of an op's operands, attributes and results, checked.
#pragma once

#include <vector>

#include "ir/attr.hpp"
#include "support/error.hpp"

namespace poptorch::ir {

struct OpDef;

// The row does not take operands of this element type.
class OperandTypeError : public support::UserError {
  using UserError::UserError;
};

// UserError `[op] ...` naming the operand, attribute or result that does not fit the row. An absent
// operand is nullptr.
void check_operands(const OpDef& def, const std::vector<const Type*>& operands);
void check_attrs(const OpDef& def, const Attrs& attrs);
// As many as the row says, and types that a tensor can have.
void check_results(const OpDef& def, const std::vector<Type>& results);

}  // namespace poptorch::ir
