// What collectives move between replicas, and how long that takes: part of the account, by the
// program alone. It changes no value.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "program/program.hpp"

namespace poptorch::program {

// Replica r has the IPUs from r·n on, of n each; so many in a row are a domain of IPU-Links, and
// GW-Links join the domains. A group over several domains meets in steps: within each domain, then
// each replica with those at its place in the others, or the other way round.
struct CollectivePart {
  std::string_view name;  // all_reduce, reduce_scatter, all_gather or all_to_all
  bool gateway = false;   // over GW-Links, else over IPU-Links
  int members = 1;        // replicas that meet
  int64_t bytes = 0;      // that an IPU sends; it receives as many
  int64_t cycles = 0;
};

// Of an instruction that is a collective, in their order; none where each replica is alone, and for
// reductions that move nothing. Of the group that is spread over the most domains.
std::vector<CollectivePart> collective_parts(const Program& program,
                                             const Instruction& instruction);

// Of gathering `shards` pieces of `bytes` each, one in each of so many replicas in a row.
std::vector<CollectivePart> gather_parts(const Program& program, int shards, int64_t bytes);

int64_t cycles_of(const std::vector<CollectivePart>& parts);

}  // namespace poptorch::program
