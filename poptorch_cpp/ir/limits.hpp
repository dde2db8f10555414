// Numbers that a module and a program keep to. What is beyond them is refused.
#pragma once

#include <cstdint>

namespace poptorch::ir {

// Of a replica, and of a pipeline or phased execution.
constexpr int kMaxIpus = 1 << 12;
constexpr int kMaxStages = 1 << 16;
constexpr int64_t kMaxOpId = 1 << 24;  // that a text may give

// Replicas of a program, and replicas between two of a group.
constexpr int kMaxReplicas = 1 << 15;
constexpr int64_t kMaxRounds = int64_t{1} << 62;  // of a body in a run, with the loops around it

constexpr int64_t kLinkDomain = 64;  // IPUs that IPU-Links join; others are behind GW-Links

}  // namespace poptorch::ir
