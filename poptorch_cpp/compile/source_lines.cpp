// If several ops of one line are now on different lines, everything that stems from any of them has
// the line of the first.
#include "compile/source_lines.hpp"

#include <map>

#include "support/error.hpp"

namespace poptorch::compile {
namespace {

using Line = SourceLines::value_type;

ir::Location location_of(const Line& line) { return {line.first, line.second}; }

void relocate(std::vector<program::Instruction>& body, const std::map<Line, Line>& moved) {
  for (program::Instruction& instruction : body) {
    const auto found = moved.find({instruction.location.file.text(), instruction.location.line});
    if (found != moved.end()) instruction.location = location_of(found->second);
    for (auto& block : instruction.blocks) relocate(block, moved);
  }
}

}  // namespace

SourceLines source_lines(const ir::Module& traced) {
  SourceLines lines;
  for (const auto& graph : traced.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      lines.emplace_back(op->location.file.text(), op->location.line);
    }
  }
  return lines;
}

void take_source_lines(Compiled& forms, const SourceLines& before, const SourceLines& now) {
  if (before == now) return;
  if (before.size() != now.size()) throw support::UserError("it belongs to another model.");
  std::map<Line, Line> moved;
  for (size_t i = 0; i < before.size(); ++i) moved.emplace(before[i], now[i]);
  for (program::IpuProgram& ipu : forms.program.ipus) relocate(ipu.body, moved);
  for (const auto& [from, to] : moved) {
    const std::string text = ir::place_text(location_of(from));
    const size_t place = text.empty() ? std::string::npos : forms.highest_ipu.find(text);
    if (place == std::string::npos) continue;
    forms.highest_ipu.replace(place, text.size(), ir::place_text(location_of(to)));
    break;
  }
}

}  // namespace poptorch::compile
