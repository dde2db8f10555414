// Runs bound code. Scheduling is cooperative: a machine that must wait for another yields its
// thread. Threads take machines that can continue (machine_queue.hpp) or, if there is none, parts
// of other machines' kernels.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "emulator/bound/code.hpp"
#include "emulator/bound/options.hpp"
#include "emulator/collectives/collective.hpp"
#include "emulator/collectives/peers.hpp"
#include "emulator/collectives/remote_collectives.hpp"
#include "emulator/host/memory.hpp"
#include "emulator/host/pool.hpp"
#include "emulator/run/machine.hpp"
#include "emulator/run/machine_queue.hpp"
#include "emulator/run/reference_time.hpp"
#include "emulator/run/regions.hpp"
#include "emulator/run/run_state.hpp"
#include "emulator/run/state_store.hpp"
#include "emulator/run/stop_flag.hpp"
#include "support/faults.hpp"

namespace poptorch::emulator {

struct KernelArgs;

class Runner {
 public:
  Runner(const Code& code, StateStore& store, RunState& state, const EngineOptions& options);

  // Raises support::Interrupted if the watch of the calling thread stops the run, and
  // support::DeviceError if an injected fault breaks one of the IPUs.
  void run(const std::vector<const std::byte*>& inputs, const std::vector<std::byte*>& outputs,
           const RandomState& random);

  std::vector<std::pair<double, double>> transfer_times(size_t stream) const;
  std::byte* remote_row(int buffer, int replica, int64_t entry);
  // Clears remote buffers and what an interrupted run has left, as after a device fault.
  void restart();
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
  void share_buffers(const Machine& machine);
  void make_streams(Replica& shared, int replica);
  void make_collectives();

  enum class Turn : uint8_t { kEnd, kWait, kStop };
  // Runs the machine until it ends, must wait or the run is stopped.
  Turn advance(Machine& machine, int worker);
  // `regions` is nullptr unless kObserved.
  template <bool kObserved>
  Turn advance(Machine& machine, int worker, OpenRegions* regions);

  // Says which step follows: the next one, the step's target, or none now or ever.
  enum class Flow : uint8_t { kNext, kJump, kWait, kEnd };
  Flow execute(const Step& step, Machine& machine, std::byte* const* buffers, int worker);
  Flow send(const Step& step, Machine& machine, const std::byte* data);
  Flow receive(const Step& step, Machine& machine, std::byte* into);
  Flow sync(Machine& machine);
  Flow begin(const Step& step, Machine& machine, std::byte* const* buffers);
  Flow wait_for_collective(const Step& step, Machine& machine);
  Flow end_loop(const Step& step, Machine& machine, int worker);
  Flow end(Machine& machine, int worker);
  Collective& collective_of(const Step& step, const Machine& machine);
  std::byte* row(const Step& step, Machine& machine);
  std::byte* stash(const Step& step, Machine& machine);

  void run_kernel(const Step& step, Machine& machine, int worker);
  void run_phases(const Step& step, Machine& machine, const KernelArgs& args);
  void share_kernel(const Step& step, int tasks, TaskRef task);

  void forget_partial_run();
  void arm_machines();
  void strike(Machine& machine, int worker);
  int run_machines();  // returns the number of threads that took machines
  void run_with_peers(const std::function<void()>& work);
  void run_all(int worker, bool alone);
  bool run_next(int worker, bool alone);  // returns whether a machine could continue
  void leave_all();
  void refuse_lonely(const Machine& machine) const;
  void wait_for_peers(int worker, uint32_t signal, bool alone);
  void check_peers();
  std::string collective_text(int number) const;

  const Code& code_;
  const program::Program& program_;
  StateStore& store_;
  RunState& state_;
  EngineOptions options_;
  Pool pool_;
  std::deque<Replica> replicas_;
  std::deque<Machine> machines_;
  std::deque<std::vector<std::unique_ptr<Collective>>> collectives_;  // by collective, by group
  std::unique_ptr<Peers> peers_;  // if there is a fabric, or collectives reach other instances
  RemoteCollectives remote_;      // the collectives that reach other instances
  std::mutex remote_mutex_;       // held by the thread that polls them
  Memory scratch_;
  int64_t scratch_stride_ = 0;
  RandomState random_;
  ReferenceTime reference_time_;
  std::optional<support::Fault> fault_;  // of this run

  // The region observer of this run and its context; nullptr: none.
  support::RegionObserver* observer_ = nullptr;
  std::shared_ptr<const void> observer_context_;

  StopFlag stop_{pool_};
  MachineQueue queue_;
};

}  // namespace poptorch::emulator
