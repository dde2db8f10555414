#include "emulator/bound/values.hpp"

namespace poptorch::emulator {

bool ValueTable::is_by_parts(ValueId id, const ir::Shape& space, int64_t parts) const {
  const Value& seen = value(id);
  const Storage& storage = storage_of(id);
  const ir::Shape& shape = seen.type.shape;
  if (storage.layout.kind != Layout::Kind::kPlain || seen.offset != 0) return false;
  if (!seen.is_strided() && seen.type.bytes() != storage.bytes()) return false;
  size_t outer = 0;
  int64_t product = 1;
  while (product < parts && outer < space.size()) product *= space[outer++];
  if (product != parts || storage.bytes() % parts != 0) return false;
  const ir::Shape strides = seen.is_strided() ? seen.strides : ir::row_major_strides(shape);
  const int64_t part = storage.bytes() / parts / ir::size_of(seen.type.dtype);
  const size_t absent = space.size() - shape.size();  // outer dimensions that the value repeats in
  int64_t step = part, last = 0;
  for (size_t d = space.size(); d-- > 0;) {
    if (d >= outer) {
      if (d >= absent) last += (shape[d - absent] - 1) * strides[d - absent];
      continue;
    }
    if (space[d] == 1) continue;
    if (d < absent || shape[d - absent] != space[d] || strides[d - absent] != step) return false;
    step *= space[d];
  }
  return last < part;
}

}  // namespace poptorch::emulator
