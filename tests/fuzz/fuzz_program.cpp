// The target of program text.
#include <stdexcept>

#include "ops/all_ops.hpp"
#include "program/program.hpp"
#include "support/error.hpp"
#include "targets.hpp"

namespace poptorch::fuzz {

Reached fuzz_program(std::string_view text) {
  program::Program parsed;
  try {
    parsed = program::parse(text, ops::registry(), "fuzz");
  } catch (const support::UserError&) {
    return Reached::kNothing;
  }
  const std::string printed = program::print(parsed, {.locations = true});
  if (program::print(program::parse(printed, ops::registry(), "printed"), {.locations = true}) !=
      printed) {
    throw std::logic_error("a program does not print as it was printed:\n" + printed);
  }
  try {
    program::verify(parsed);
  } catch (const support::Error&) {
    return Reached::kParsed;
  }
  return Reached::kVerified;
}

}  // namespace poptorch::fuzz
