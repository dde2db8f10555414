// Binds a program to this host and runs it: chooses kernels and layouts, fuses element-wise chains,
// plans the host's arena, then executes steps without allocating or deciding anything.
//
// Values never depend on the options, on threads, or on where replicas run; only speed does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/bound/options.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {

struct BoundProgram;  // bind/bound_program.hpp
class RunState;
class StateStore;

class Engine {
 public:
  // Raises UserError if an op has neither a kernel nor a provider (the message names the op).
  Engine(program::Program program, const ir::Registry& registry, EngineOptions options = {});
  // Runs a program that was bound with equal options; `state` and `random_seed` may differ.
  Engine(std::shared_ptr<const BoundProgram> bound, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const program::Program& program() const;
  // Returns what other engines may share.
  std::shared_ptr<const BoundProgram> bound() const;
  const Share& share() const;
  // Returns the type of the host's buffer of a stream: the rows of this instance's replicas, or of
  // the groups that have one.
  ir::Type host_type(const program::Stream& stream) const;

  // Runs the program once. `inputs` holds one buffer for every stream into the device, `outputs`
  // one for every stream out of it. Buffers are in the order of Program::streams, dense, and of
  // host_type(). After an error the state is what the completed instructions left, except for sums
  // of gradients, which are reset. The same applies if the watch of the calling thread stopped the
  // run (support::Interrupted), or a fault did (support::DeviceError: see support/faults.hpp).
  // run() is not re-entrant.
  void run(const std::vector<const std::byte*>& inputs, const std::vector<std::byte*>& outputs);
  // Returns in which state runs and faults have left the device. The caller of a copy reports a
  // device fault there.
  RunState& run_state();
  // Returns whether the last run did not complete, and so may have written the state only in part.
  bool left_state_partial() const;
  // Returns whether a run since the last call was interrupted and wrote only some of its state.
  bool forget_partial_state();
  // Resets the state that runs write to its initial values, and clears remote buffers, as after a
  // device fault.
  void restart();

  // The state slots of this instance's replicas; those of other instances are neither read nor
  // written.
  StateStore& state();
  const StateStore& state() const;

  // Access row `entry` of a remote buffer of `replica`, which must be a replica of this instance.
  void read_remote(const std::string& name, int replica, int64_t entry, std::byte* data) const;
  void write_remote(const std::string& name, int replica, int64_t entry, const std::byte* data);

  // Exchange rows between instances (peers.hpp). Do nothing if there is one instance.
  void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                const std::vector<int>& owners);
  void exchange_before_run(const std::string& what, std::byte* rows, int64_t row_bytes,
                           const std::vector<int>& owners);
  // Send and receive notes outside of runs (peers.hpp).
  void tell(const std::byte* note, int64_t bytes);
  int hear(std::byte* note, int64_t bytes);

  // Returns when each kept transfer of the program's stream `stream` began and ended in the last
  // run. Times are in seconds of the steady clock, in the order of the host's buffer; inputs have
  // the transfers of every replica.
  std::vector<std::pair<double, double>> transfer_times(size_t stream) const;

  RandomState random_state() const;
  void set_random_state(RandomState state);

  HostMemory memory() const;
  // Returns, for each op that has a reference kernel, its share of the time of all runs so far.
  std::vector<std::pair<std::string, double>> reference_shares() const;
  // Returns the text of the bound code (bound/text.hpp).
  std::string text() const;
  // Returns the line of each step with the id of the op that it comes from, 0 if there is none.
  // Fused ops have a line each.
  std::vector<std::pair<uint64_t, std::string>> op_lines() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poptorch::emulator
