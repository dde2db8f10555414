#include "frontends/torch/tracer/graph/refusals.hpp"

#include <algorithm>

#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;

constexpr std::string_view kUnsupported = "Unsupported ops found in compiled model: ";

void erase(std::string& text, const std::string& part) {
  const size_t at = part.empty() ? std::string::npos : text.find(part);
  if (at != std::string::npos) text.erase(at, part.size());
}

std::string places_text(const Refusal& refusal) {
  std::vector<std::string> parts;
  for (const auto& [place, count] : refusal.places) {
    parts.push_back(count == 1 ? place : str(place, ", ", count, " times"));
  }
  return support::join(parts, "; ");
}

}  // namespace

void Refusals::add(const std::string& op, const support::UnsupportedError& error,
                   const ir::Location& location) {
  std::string reason = error.what();
  if (refusals_.empty()) {
    first_text_ = reason;
    first_where_ = error.where();
  }
  erase(reason, ir::place_text(location));
  erase(reason, std::string(kUnsupported));
  erase(reason, str("[", op, "]"));
  reason.erase(0, reason.find_first_not_of(" ."));
  const std::string line =
      location.empty() ? "an unknown line" : str(location.file, ":", location.line);
  const auto same = [&](const Refusal& refusal) {
    return refusal.op == op && refusal.reason == reason;
  };
  auto found = std::find_if(refusals_.begin(), refusals_.end(), same);
  if (found == refusals_.end()) found = refusals_.insert(found, {op, reason, {}});
  ++found->places[line];
}

void Refusals::raise(const std::string& end) const {
  const bool is_alone = refusals_.size() == 1 && refusals_[0].places.size() == 1 && end.empty();
  if (is_alone && refusals_[0].places.begin()->second == 1) {
    throw support::UnsupportedError(first_text_, first_where_);
  }
  std::vector<std::string> names, lines;
  for (const Refusal& refusal : refusals_) {
    if (std::find(names.begin(), names.end(), refusal.op) == names.end()) {
      names.push_back(refusal.op);
    }
    lines.push_back(str("\n  ", refusal.op, " (", places_text(refusal), "): ", refusal.reason));
  }
  std::string text = str(kUnsupported, "[", support::join(names, ", "), "].");
  for (const std::string& line : lines) text += line;
  if (!end.empty()) text += str("\n  The trace ended at another one: ", end, kBehindEnd);
  throw support::UnsupportedError(text, first_where_);
}

}  // namespace poptorch::frontend
