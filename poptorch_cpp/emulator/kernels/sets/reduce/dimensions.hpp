// The dimensions of a reduction, grouped into alternating kept and reduced ones.
#pragma once

#include <vector>

#include "ir/type.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

struct Groups {
  ir::Shape kept_sizes, kept_strides;        // without the innermost group
  ir::Shape reduced_sizes, reduced_strides;  // without the innermost group
  int64_t inner = 1;                         // size of the innermost group, stride 1
  bool inner_reduced = true;
  int64_t kept() const { return ir::element_count(kept_sizes); }
  int64_t reduced() const { return ir::element_count(reduced_sizes); }
};

inline Groups group_dimensions(const ir::Shape& sizes, const std::vector<bool>& reduced) {
  struct Group {
    int64_t size;
    bool reduced;
  };
  std::vector<Group> groups;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[d]) {
      groups.back().size *= sizes[d];
    } else {
      groups.push_back({sizes[d], reduced[d]});
    }
  }
  Groups out;
  if (groups.empty()) return out;
  out.inner = groups.back().size;
  out.inner_reduced = groups.back().reduced;
  int64_t stride = out.inner;
  for (size_t g = groups.size() - 1; g-- > 0;) {
    auto& to_sizes = groups[g].reduced ? out.reduced_sizes : out.kept_sizes;
    auto& to_strides = groups[g].reduced ? out.reduced_strides : out.kept_strides;
    to_sizes.insert(to_sizes.begin(), groups[g].size);
    to_strides.insert(to_strides.begin(), stride);
    stride *= groups[g].size;
  }
  return out;
}

inline int64_t offset_at(int64_t index, const ir::Shape& sizes, const ir::Shape& strides) {
  int64_t offset = 0;
  for (size_t d = sizes.size(); d-- > 0;) {
    offset += index % sizes[d] * strides[d];
    index /= sizes[d];
  }
  return offset;
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
