// The source line that an op stems from.
#pragma once

#include <string>

#include "support/symbol.hpp"

namespace poptorch::ir {

// The source line, in the user's code, that made an op. Printed on request as `loc("model.py":42)`.
struct Location {
  support::Symbol file;
  int line = 0;
  bool empty() const { return file.empty(); }
  bool operator==(const Location&) const = default;
};
std::string place_text(const Location& location);  // " (model.py:12)"; empty for an empty location

}  // namespace poptorch::ir
