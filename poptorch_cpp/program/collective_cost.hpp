// The cost of collectives: the bytes that move between replicas, and the time that takes. It is
// part of the cost model, depends on the program alone and does not change values.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "program/program.hpp"

namespace poptorch::program {

// Replica r has n IPUs from r·n on. A number of IPUs in a row form a domain of IPU-Links, and
// GW-Links join the domains. A group over several domains runs in steps: within each domain, then
// between replicas at the same place of each domain, or the reverse.
struct CollectivePart {
  std::string_view name;  // all_reduce, reduce_scatter, all_gather or all_to_all
  bool gateway = false;   // over GW-Links, else over IPU-Links
  int members = 1;        // replicas that meet
  int64_t bytes = 0;      // that an IPU sends; it receives as many
  int64_t cycles = 0;
};

// Returns the parts of a collective instruction, in order, for the group that is spread over the
// most domains. It returns none where each replica is alone, and for reductions that move nothing.
std::vector<CollectivePart> collective_parts(const Program& program,
                                             const Instruction& instruction);

// Returns the parts of gathering `shards` pieces of `bytes` each, from as many replicas in a row.
std::vector<CollectivePart> gather_parts(const Program& program, int shards, int64_t bytes);

// Returns the bytes that an IPU receives at a time, before it adds them: the piece of a ring.
int64_t ring_buffer(const Program& program, const Instruction& instruction);

int64_t cycles_of(const std::vector<CollectivePart>& parts);

}  // namespace poptorch::program
