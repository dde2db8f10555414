// Pieces of the parser that other text forms share.
#pragma once

#include "ir/attr.hpp"
#include "ir/lexer.hpp"
#include "ir/op_def.hpp"

namespace poptorch::ir {

DType parse_dtype(Lexer& lexer);
Type parse_type(Lexer& lexer);  // f32[2,3]
// An attribute value; `expected` settles what the text leaves open ([] or 1 for a float).
Attr parse_attr(Lexer& lexer, std::optional<AttrType> expected = std::nullopt);
// `{a=1, b="x"}` or nothing. `def` (may be null) gives the expected types.
Attrs parse_attrs(Lexer& lexer, const OpDef* def);

}  // namespace poptorch::ir
