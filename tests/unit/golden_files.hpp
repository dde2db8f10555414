// Files with expected texts. With POPTORCH_REWRITE_GOLDEN=1 (`make golden`) tests write them;
// otherwise they compare.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace poptorch::golden {

inline bool rewriting() { return std::getenv("POPTORCH_REWRITE_GOLDEN") != nullptr; }

// `path` is relative to tests/.
inline std::string read(const std::string& path) {
  std::ifstream file(POPTORCH_TESTS_DIR "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::string& path, const std::string& text) {
  std::ofstream(POPTORCH_TESTS_DIR "/" + path) << text;
}

}  // namespace poptorch::golden
