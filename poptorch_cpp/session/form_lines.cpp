#include "session/form_lines.hpp"

#include "session/session.hpp"

namespace poptorch::session {

std::vector<FormLines> form_lines(const Executable& executable) {
  std::vector<FormLines> forms;
  for (const char* form : {"traced", "normal", "differentiated", "placed", "program", "bound"}) {
    auto lines = executable.op_lines(form);
    std::erase_if(lines, [](const auto& line) { return line.first == 0; });
    if (!lines.empty()) forms.push_back({form, std::move(lines)});
  }
  return forms;
}

}  // namespace poptorch::session
