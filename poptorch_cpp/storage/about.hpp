// The section `about` of an executable's file: facts that the core stores beside the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace poptorch::storage {

// The file and line of every op, in the order of the module.
using SourceLines = std::vector<std::pair<std::string, int>>;

struct About {
  std::string version = {};
  std::string highest_ipu = {};               // as in compile::Compiled
  std::string key = {};                       // of an entry of the cache
  SourceLines lines = {};                     // of an entry of the cache
  std::vector<std::string> input_names = {};  // as the user knows them
  std::optional<std::pair<uint64_t, uint64_t>> random_state = {};
};

std::string json_of(const About& about);
// Throws UserError `[file] '<origin>' ...` for a text that json_of() has not written.
About about_of(std::string_view json, const std::string& origin);

}  // namespace poptorch::storage
