// Describes an op over all replicas of a group, as the binder decided it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/type.hpp"
#include "program/replica_groups.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

enum class CollectiveKind : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll };
enum class Reduction : uint8_t {
  kSum,
  kMean,
  kMul,
  kMin,
  kMax,
  kAnd,
  kOr,
  kSquareAdd,
  kLocal,  // none: each replica keeps its own operand, or its part
};

// These convert the words of the IR. They raise InternalError for other words: the op's row lists
// the valid ones.
CollectiveKind collective_kind(std::string_view op);
Reduction reduction(std::string_view word);
std::string_view name_of(CollectiveKind kind);
std::string_view name_of(Reduction reduction);

// Says how operands reach the other replicas of a group.
enum class Way : uint8_t {
  kLocal,   // this instance runs all of them
  kShared,  // each instance reads the memory of the others, on one host
  kSent,    // in messages
};

struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  program::ReplicaGroups groups = {};
  ir::DType dtype = ir::DType::kF32;
  int64_t elements = 0;                // of one replica's operand
  support::Table<int, Way> ways = {};  // by group; those without a replica here count as local

  bool is_reduction() const {
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
  }
  int64_t operand_bytes() const { return elements * ir::size_of(dtype); }
};

}  // namespace poptorch::emulator
