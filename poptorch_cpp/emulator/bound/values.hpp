// The values of a plan or of a code, and the memory that they denote. Values that share a storage
// are the same memory: views, and results of ops that write their operand.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/kernels/base/memory_layout.hpp"
#include "ir/type.hpp"
#include "program/base.hpp"
#include "support/symbol.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

using program::Base;

using support::Table;

using ValueId = int32_t;
constexpr ValueId kNoValue = -1;
using StorageId = int32_t;

// Describes a piece of memory: a state, a constant, or a part of an IPU's arena.
struct Storage {
  Base base = Base::kArena;  // kState, kConstant; everything else is in the arena
  int32_t index = -1;        // of the state or constant
  int ipu = 0;               // of the arena
  ir::Type type = {};        // in row-major form
  Layout layout = {};
  int writers = 0;  // nodes that write it, loops counted once
  int readers = 0;
  bool meets = false;    // operand or result of a collective
  bool resized = false;  // some value sees it with another shape or at an offset: plain only
  int64_t offset = 0;    // in the arena, by plan_arena
  int32_t copy_of =
      -1;  // a copy in another layout of this state or constant, kept up to date outside runs
  bool held = false;  // in the scratch memory of one kernel, a block of rows at a time: RowsSpec
  bool kept = false;  // shares its part of the arena with nothing: a prepared workspace
  int64_t bytes() const { return type.bytes(); }
  // Whether it is a state or a constant that no node writes, and that is seen as a whole.
  bool is_fixed() const { return base != Base::kArena && writers == 0 && !resized; }
  // Whether it may be held in another layout than plain.
  bool takes_any_layout() const { return base == Base::kArena && writers == 1 && !resized; }
};

struct Value {
  ir::Type type;
  int32_t storage = -1;
  int64_t offset = 0;  // bytes, in the storage
  support::Symbol name;
  ir::Shape strides = {};  // elements; empty: the elements lie next to each other

  // Whether only chains, and kernels whose row reads strides, can read it.
  bool is_strided() const { return !strides.empty(); }
  // Returns the bytes from its first element to the end of its last.
  int64_t extent() const {
    if (!is_strided()) return type.bytes();
    int64_t last = 0;
    for (size_t d = 0; d < strides.size(); ++d) last += (type.shape[d] - 1) * strides[d];
    return (last + 1) * ir::size_of(type.dtype);
  }
};

struct ValueTable {
  Table<ValueId, Value> values = {};  // the program's tensors come first, by id
  Table<StorageId, Storage> storages = {};

  const Value& value(ValueId id) const { return values[id]; }
  Storage& storage_of(ValueId id) { return storages[value(id).storage]; }
  const Storage& storage_of(ValueId id) const { return storages[value(id).storage]; }
  // Returns whether both values are the same bytes with the same type.
  bool same_memory(ValueId a, ValueId b) const {
    return value(a).storage == value(b).storage && value(a).offset == value(b).offset &&
           value(a).type == value(b).type && value(a).strides == value(b).strides;
  }
  // Divides `space`, with which the value is read, and the value's memory into `parts` equal parts.
  // Returns whether every element of part r of the space lies in part r of the memory.
  bool is_by_parts(ValueId id, const ir::Shape& space, int64_t parts) const;
  // Returns whether the value has one element for each of `space`, in the order of its memory.
  bool fills(ValueId id, const ir::Shape& space) const {
    return value(id).type.shape == space && !value(id).is_strided();
  }
};

}  // namespace poptorch::emulator
