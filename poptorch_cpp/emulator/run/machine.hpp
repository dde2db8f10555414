// The machines that run bound code. A machine is one IPU of one replica: a program counter over the
// shared steps, a table of addresses and its counters.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "emulator/bound/code.hpp"
#include "emulator/host/memory.hpp"
#include "emulator/run/exchange.hpp"
#include "emulator/run/stream_end.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

// State that the IPUs of one replica share.
struct Replica {
  explicit Replica(int ipus) : sync(ipus) {}
  std::deque<Channel> channels;
  std::deque<StreamEnd> streams;
  std::deque<Memory> remote;
  Barrier sync;
  // Counts events after which a waiting machine of the replica may be able to continue: sends,
  // receives, arrivals.
  std::atomic<int64_t> events{0};
};

struct Machine {
  const IpuCode* code = nullptr;
  Replica* shared = nullptr;
  int replica = 0;  // index among the replicas of all instances
  std::vector<std::byte*> table;
  support::Table<int32_t, int64_t> rounds_left;  // by loop
  support::Table<int32_t, int64_t> begun;        // by collective: the ticket of its last arrival
  support::Table<int32_t, int64_t>
      prepared;  // StateStore::version() at which each workspace was prepared
  support::Table<int32_t, Memory> stashes;  // by stash; empty for another IPU's
  Memory arena;

  int32_t at = 0;
  int64_t micro_batch = 0;  // of this run
  uint64_t round = 0;       // of the current repeats, the innermost varying fastest
  int64_t ticket = -1;      // at the barrier where it waits; -1: none
  int64_t seen = -1;        // MachineQueue::events_of() when it last failed to continue
  int worker = -1;          // that ran it last, whose caches may still hold the weights
  std::string name = {};    // for the region observer

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
  int64_t fails_after = kNever;  // micro-batches until the injected fault: support::Fault

  void begin_run() {
    at = 0;
    micro_batch = 0;
    round = 0;
    ticket = seen = -1;
  }
};

}  // namespace poptorch::emulator
