// Checks an op's operands, attributes and results against its row.
#pragma once

#include <vector>

#include "ir/attr.hpp"
#include "support/error.hpp"

namespace poptorch::ir {

struct OpDef;

// Thrown if the row does not accept operands of this element type.
class OperandTypeError : public support::UserError {
  using UserError::UserError;
};

// UserError `[op] ...` naming the operand, attribute or result that does not fit the row. An absent
// operand is nullptr.
void check_operands(const OpDef& def, const std::vector<const Type*>& operands);
void check_attrs(const OpDef& def, const Attrs& attrs);
// Checks that there are as many results as the row says, of types that a tensor can have.
void check_results(const OpDef& def, const std::vector<Type>& results);

}  // namespace poptorch::ir
