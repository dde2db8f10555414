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

class StateStore;

class Engine {
 public:
  // UserError when an op has neither a kernel nor a provider (the missing one is named).
  Engine(program::Program program, const ir::Registry& registry, EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const program::Program& program() const;
  const Share& share() const;
  // Of the host's buffer of a stream: the rows of this instance's replicas, or of the groups that
  // have one.
  ir::Type host_type(const program::Stream& stream) const;

  // One run. `inputs` holds one buffer for every stream into the device, `outputs` one for every
  // stream out of it, each in the order of Program::streams, dense, of host_type(). After an
  // error the state is what the completed instructions left, but for sums of gradients, which begin
  // anew; so it is when the watch of the calling thread stopped the run (support::Interrupted), or
  // a fault (support::DeviceError: see support/faults.hpp). Not re-entrant.
  void run(const std::vector<const std::byte*>& inputs, const std::vector<std::byte*>& outputs);
  // Whether the last run did not come to its end, and so left some of what it writes unwritten.
  bool left_state_partial() const;
  // What runs have written, and remote buffers, begin anew, as after a fault of the device.
  void restart();

  // The state slots. What other instances' replicas have is neither read nor written.
  StateStore& state();
  const StateStore& state() const;

  // Row `entry` of a remote buffer of `replica`, which must be one of this instance's.
  void read_remote(const std::string& name, int replica, int64_t entry, std::byte* data) const;
  void write_remote(const std::string& name, int replica, int64_t entry, const std::byte* data);

  // Rows of what instances have: peers.hpp. Nothing where there is one instance.
  void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                const std::vector<int>& owners);
  void exchange_before_run(const std::string& what, std::byte* rows, int64_t row_bytes,
                           const std::vector<int>& owners);
  // Notes beside runs: peers.hpp.
  void tell(const std::byte* note, int64_t bytes);
  int hear(std::byte* note, int64_t bytes);

  // Of the last run: when each kept transfer of stream `stream` of the program began and ended, in
  // seconds of the steady clock, in the order of the host's buffer; of inputs every replica's.
  std::vector<std::pair<double, double>> transfer_times(size_t stream) const;

  RandomState random_state() const;
  void set_random_state(RandomState state);

  HostMemory memory() const;
  // By op that has a reference kernel: the share of the time of all runs so far that they took.
  std::vector<std::pair<std::string, double>> reference_shares() const;
  // What was bound, one line a step, for logs and tests: kernels, fused chains, layouts.
  std::string text() const;
  // The line of each step with the id of the op that it stems from, 0 where it is of none; where
  // several are fused, a line for each.
  std::vector<std::pair<uint64_t, std::string>> op_lines() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poptorch::emulator
