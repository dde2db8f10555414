// The lines of a model's forms that are an op's or an instruction's.
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

// Of those forms that are there, in the order in which they are made.
std::vector<FormLines> form_lines(const Executable& executable);

}  // namespace poptorch::session
