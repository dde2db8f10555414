// The lines of a model's forms that are an op or an instruction.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace poptorch::session {

class Executable;

struct FormLines {
  std::string form;
  std::vector<std::pair<uint64_t, std::string>> lines;  // of an op, by its id
};

// Returns the lines of the available forms, in the order of compilation.
std::vector<FormLines> form_lines(const Executable& executable);

}  // namespace poptorch::session
