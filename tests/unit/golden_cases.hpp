// The cases of tests/ir/<stage>/<pass>.ir: see golden_test.cpp.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace poptorch {

struct Case {
  std::filesystem::path file;
  std::string title, input = {}, expected = {}, error = {};
  std::vector<std::string> run = {};
  int index = 0;  // in the file

  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.title; }
};

inline std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \n\t");
  return first == std::string::npos
             ? ""
             : text.substr(first, text.find_last_not_of(" \n\t") - first + 1);
}

inline bool take_mark(const std::string& line, const std::string& mark, std::string& rest) {
  const std::string prefix = "// " + mark + ":";
  if (line.compare(0, prefix.size(), prefix) != 0) return false;
  rest = trimmed(line.substr(prefix.size()));
  return true;
}

inline std::vector<Case> read_cases(const std::filesystem::path& file) {
  std::vector<Case> cases;
  std::ifstream in(file);
  std::string rest;
  std::string* section = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (take_mark(line, "case", rest)) {
      cases.push_back({.file = file, .title = rest, .index = static_cast<int>(cases.size())});
      section = &cases.back().input;
    } else if (!section) {
      continue;  // the file's own head
    } else if (take_mark(line, "run", rest)) {
      std::istringstream names(rest);
      for (std::string name; std::getline(names, name, ',');) {
        cases.back().run.push_back(trimmed(name));
      }
    } else if (take_mark(line, "expect", rest)) {
      section = &cases.back().expected;
    } else if (take_mark(line, "error", rest)) {
      cases.back().error = rest;
    } else {
      *section += line + "\n";
    }
  }
  return cases;
}

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  std::vector<std::filesystem::path> files;
  const std::filesystem::path root = std::filesystem::path(POPTORCH_TESTS_DIR) / "ir";
  if (!std::filesystem::exists(root)) return cases;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".ir") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    for (Case& one : read_cases(file)) cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace poptorch
