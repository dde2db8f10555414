#include "compile/compiled.hpp"

#include "support/exhaustion.hpp"

namespace poptorch::compile {

Compiled parsed(std::string_view text, const ir::Registry& registry) {
  return support::refusing_exhaustion([&] {
    Compiled forms;
    forms.program = program::parse(text, registry, "program");
    program::verify(forms.program);
    return forms;
  });
}

}  // namespace poptorch::compile
