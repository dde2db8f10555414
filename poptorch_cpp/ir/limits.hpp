// Limits of a module and a program. Larger numbers are refused.
#pragma once

#include <cstdint>

namespace poptorch::ir {

// The first is of a replica, the second of a pipeline or phased execution.
constexpr int kMaxIpus = 1 << 12;
constexpr int kMaxStages = 1 << 16;
constexpr int64_t kMaxOpId = 1 << 24;  // the largest that a text may give

// Limits both the replicas of a program and the stride of a group of replicas.
constexpr int kMaxReplicas = 1 << 15;
constexpr int64_t kMaxRounds = int64_t{1} << 62;  // of a body in a run, with the loops around it

constexpr int64_t kLinkDomain = 64;  // IPUs that IPU-Links join; GW-Links lead to others

}  // namespace poptorch::ir
