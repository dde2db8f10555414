// Defines the regions of a program's code, which profilers see (regions.hpp): forward, backward and
// update, and in them the modules by path. They are only data: a step names its region by number.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/symbol.hpp"
#include "support/table.hpp"

namespace poptorch::program {
enum class Pass : uint8_t;
}

namespace poptorch::emulator {

struct CodeRegion {
  std::string name;
  int32_t parent = -1;
  int depth = 0;  // parents above it
};

// Gathers the regions of a program. "encoder.0" lies in "encoder", which lies in its pass.
class CodeRegions {
 public:
  // Returns the region of ops in `scope`, or that of the pass itself if `scope` is empty.
  int32_t of(program::Pass pass, support::Symbol scope);
  int32_t of_stream(bool to_device);
  support::Table<int32_t, CodeRegion> take() { return std::move(regions_); }

 private:
  int32_t named(const std::string& name, int32_t parent);
  int32_t module(const std::string& path, const std::string& suffix, int32_t parent);

  support::Table<int32_t, CodeRegion> regions_;
  std::map<std::pair<int32_t, std::string>, int32_t> by_name_;
  std::map<std::pair<program::Pass, support::Symbol>, int32_t> by_scope_;
};

}  // namespace poptorch::emulator
