// Runs bound code. A machine is one IPU of one replica: a program counter over the shared steps, a
// table of addresses and its counters. Scheduling is cooperative: a machine that must wait for
// another yields its thread. Threads take machines that can continue or, if there is none, parts of
// other machines' kernels. The order in which machines run never changes a value.
#pragma once

#include <atomic>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "emulator/bound/code.hpp"
#include "emulator/bound/options.hpp"
#include "emulator/collectives/collective.hpp"
#include "emulator/collectives/far_collective.hpp"
#include "emulator/collectives/peers.hpp"
#include "emulator/host/memory.hpp"
#include "emulator/host/pool.hpp"
#include "emulator/run/exchange.hpp"
#include "emulator/run/reference_time.hpp"
#include "emulator/run/regions.hpp"
#include "emulator/run/state_store.hpp"
#include "support/faults.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {

// A replica's end of a host stream, and its position in the current run.
struct StreamEnd {
  const program::Stream* stream = nullptr;
  int64_t bytes = 0;      // of one transfer
  int64_t step = 0;       // bytes from a transfer to the replica's next one
  int64_t first = 0;      // bytes to the replica's first transfer
  int host_buffer = 0;    // among inputs or among outputs
  int64_t transfers = 0;  // done in this run
  std::byte* data = nullptr;
  std::vector<std::pair<double, double>> times = {};  // of the kept transfers: begin and end
};

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
  std::vector<int64_t> rounds_left;  // by loop
  std::vector<int64_t> begun;        // by collective: the ticket of its last arrival
  std::vector<int64_t> prepared;     // StateStore::version() at which each workspace was prepared
  std::vector<Memory> stashes;       // by stash; empty for another IPU's
  Memory arena;

  int32_t at = 0;
  int64_t micro_batch = 0;  // of this run
  uint64_t round = 0;       // of the current repeats, the innermost varying fastest
  int64_t ticket = -1;      // at the barrier where it waits; -1: none
  int64_t seen = -1;        // Runner::events_of() when it last failed to continue
  int worker = -1;          // that ran it last, whose caches may still hold the weights
  std::string name = {};    // for the region observer

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
  int64_t fails_after = kNever;  // micro-batches until the injected fault: support::Fault
};

class Runner {
 public:
  Runner(const Code& code, StateStore& store, const EngineOptions& options);

  // Raises support::Interrupted if the watch of the calling thread stops the run, and
  // support::DeviceError if an injected fault breaks one of the IPUs.
  void run(const std::vector<const std::byte*>& inputs, const std::vector<std::byte*>& outputs,
           const RandomState& random);

  bool failed() const { return failed_; }  // the last run did not complete
  std::vector<std::pair<double, double>> transfer_times(size_t stream) const;
  std::byte* remote_row(int buffer, int replica, int64_t entry);
  void clear_remote_buffers();
  // Null before the first run or exchange, and if nothing communicates with another instance.
  Peers* peers() const { return peers_.get(); }
  // Calls Peers::exchange(); does nothing if there is one instance.
  void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                const std::vector<int>& owners);
  void exchange_before_run(const std::string& what, std::byte* rows, int64_t row_bytes,
                           const std::vector<int>& owners);
  HostMemory memory() const;
  const ReferenceTime& reference_time() const { return reference_time_; }

 private:
  void make_replicas();
  void make_machine(int replica, int ipu);
  void lend(const Machine& machine);
  void make_streams(Replica& shared, int replica);
  void make_collectives();

  enum class Turn : uint8_t { kEnd, kWait, kStop };
  // Runs the machine until it ends, must wait or the run is stopped.
  Turn advance(Machine& machine, int worker);
  // `regions` is nullptr unless kObserved.
  template <bool kObserved>
  Turn advance(Machine& machine, int worker, OpenRegions* regions);
  void run_kernel(const Step& step, Machine& machine, int worker);
  void share_kernel(const Step& step, int tasks, TaskRef task);
  bool sync(Machine& machine);
  void begin(const Step& step, Machine& machine);
  Collective& collective_of(const Step& step, const Machine& machine);
  void stream_in(StreamEnd& end, std::byte* to);
  void stream_out(StreamEnd& end, const std::byte* from);
  std::byte* row(const Step& step, Machine& machine);
  std::byte* stash(const Step& step, Machine& machine);
  void forget_failed_run();
  void arm_machines();
  void strike(Machine& machine);
  bool may_go_on(int worker);
  int run_machines();  // returns the number of threads that took machines
  void run_with_peers(const std::function<void()>& work);
  void run_all(int worker, bool alone);
  void leave_all();
  Machine* next_machine(int worker, bool take_others);  // nullptr: none now
  int64_t events_of(const Machine& machine) const;
  void note_event(Machine& machine);
  void break_stall();
  void refuse_lonely(const Machine& machine) const;
  bool waits_for_peers() const { return peers_ && peers_->under_way.load() > 0; }
  void wait_for_peers(int worker, uint32_t signal, bool alone);
  bool poll_peers();
  void check_peers();
  std::string collective_text(int number) const;
  void give_back(Machine* machine, bool finished);

  const Code& code_;
  const program::Program& program_;
  StateStore& store_;
  EngineOptions options_;
  Pool pool_;
  std::deque<Replica> replicas_;
  std::deque<Machine> machines_;
  std::deque<std::vector<std::unique_ptr<Collective>>> collectives_;  // by collective, by group
  std::unique_ptr<Peers> peers_;     // if there is a fabric, or collectives reach other instances
  std::vector<FarCollective*> far_;  // the collectives that reach other instances
  std::mutex far_mutex_;             // held by the thread that polls them
  Memory scratch_;
  int64_t scratch_stride_ = 0;
  RandomState random_;
  ReferenceTime reference_time_;
  bool failed_ = false;
  std::optional<support::Fault> fault_;  // of this run

  // The region observer of this run and its context; nullptr: none.
  support::RegionObserver* observer_ = nullptr;
  std::shared_ptr<const void> listening_;

  // Worker 0, the thread that called run(), asks its watch whether to stop. Another worker that
  // finds the watch due sets told_, so that worker 0 asks.
  support::Watch* watch_ = nullptr;
  std::atomic<bool> stop_{false};
  std::atomic<bool> told_{false};

  std::atomic<int64_t> meetings_{0};   // counts arrivals at collectives, and completed ones
  std::atomic<bool> overfill_{false};  // no machine can continue: a full channel may grow

  // Scheduling. A machine that could not continue is retried only after an event that concerns it.
  std::mutex mutex_;
  std::deque<Machine*> waiting_;  // machines that no thread holds, in scheduling order
  int running_ = 0;
  int unfinished_ = 0;
  int64_t stalled_at_ = -1;  // number of all events when overfill_ was last set
};

}  // namespace poptorch::emulator
