// Errors about dimensions that are out of range: torch's sentence, and a remedy. Declared in
// handled.hpp. Call::axis gives the same text for the operators that have rows.
#include <c10/util/Exception.h>

#include "frontends/torch/tracer/dispatch/handled.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {

void check_dims_of_scalar(const Handled& h) {
  if (h.arguments.empty() || !h.arguments[0].isTensor() || !h.arguments[0].toTensor().defined() ||
      h.arguments[0].toTensor().dim() > 0) {
    return;
  }
  for (const char* name : {"dim", "dims"}) {
    const size_t dim = h.call.index_of(name);
    if (dim == Call::kNone || !h.call.given(dim)) continue;
    if (!h.arguments[dim].isInt() && !h.arguments[dim].isIntList()) continue;
    const ir::Ints dims = h.call.ints(dim);
    for (const int64_t each : dims) h.call.axis(each, 0);
    if (dims.size() > 1) h.call.fail("dim 0 appears multiple times in the list of dims.");
  }
}

std::string with_remedy(const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  constexpr std::string_view kBegin = "Dimension out of range (expected to be in range of [";
  if (!text.starts_with(kBegin)) return text;
  const std::string range = text.substr(kBegin.size(), text.find(']') - kBegin.size());
  const size_t comma = range.find(", ");
  if (comma == std::string::npos) return text;
  return support::str(text, ". Give one from ", range.substr(0, comma), " to ",
                      range.substr(comma + 2), ".");
}

}  // namespace poptorch::frontend
