// Pieces of the parser that other text forms share.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "ir/attr.hpp"
#include "ir/lexer.hpp"

namespace poptorch::ir {

struct OpDef;

DType parse_dtype(Lexer& lexer);
Type parse_type(Lexer& lexer);  // f32[2,3]
// Parses an attribute value; `expected` resolves ambiguous text ([], or 1 for a float).
Attr parse_attr(Lexer& lexer, std::optional<AttrType> expected = std::nullopt);
// Parses `{a=1, b="x"}` or nothing. `def` (may be null) gives the expected types.
Attrs parse_attrs(Lexer& lexer, const OpDef* def);
// Parses the part after an @: a name, in quotes if it is not plain.
std::string parse_graph_name(Lexer& lexer);
// Parses the part after `loc`: `("model.py":42)`.
std::pair<std::string, int> parse_location(Lexer& lexer);

}  // namespace poptorch::ir
