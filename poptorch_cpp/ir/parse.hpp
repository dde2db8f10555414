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
// An attribute value; `expected` settles what the text leaves open ([] or 1 for a float).
Attr parse_attr(Lexer& lexer, std::optional<AttrType> expected = std::nullopt);
// `{a=1, b="x"}` or nothing. `def` (may be null) gives the expected types.
Attrs parse_attrs(Lexer& lexer, const OpDef* def);
// Behind an @: a name, in quotes when it is not plain.
std::string parse_graph_name(Lexer& lexer);
// Behind `loc`: `("model.py":42)`.
std::pair<std::string, int> parse_location(Lexer& lexer);

}  // namespace poptorch::ir
