// Helpers of tests in which several instances run a program: a fabric within one process, runs of
// all instances at once, and buffers assembled from the instances' rows.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "compile/pipeline.hpp"
#include "emulator/bound/share.hpp"
#include "emulator/collectives/attempts.hpp"
#include "emulator/run/state_store.hpp"
#include "emulator/transport/fabric.hpp"
#include "engine_testing.hpp"
#include "program/replica_groups.hpp"
#include "trained_net.hpp"
#include "wire_testing.hpp"

namespace poptorch::emulator {

// Mailboxes of all instances, in one process.
struct Mail {
  explicit Mail(int instances)
      : count(instances), boxes(static_cast<size_t>(instances * instances)) {}
  const int count;
  std::mutex mutex;
  std::vector<Inbox> boxes;  // from · count + to
  std::vector<EventCount> events = std::vector<EventCount>(static_cast<size_t>(count));
  std::vector<std::string> ends = std::vector<std::string>(static_cast<size_t>(count));
  Inbox& box(int from, int to) { return boxes[static_cast<size_t>(from * count + to)]; }
};

class LocalFabric : public Fabric {
 public:
  // is_on_one_host: operands of any length are shared.
  LocalFabric(std::shared_ptr<Mail> mail, int instance, int64_t most, bool is_on_one_host)
      : mail_(std::move(mail)),
        instance_(instance),
        most_(most),
        is_on_this_host_(is_on_one_host) {}
  int instances() const override { return mail_->count; }
  int instance() const override { return instance_; }
  int64_t most_bytes() const override { return most_; }
  bool is_on_this_host(int /*other*/) const override { return is_on_this_host_; }
  int64_t least_shared() const override { return 1; }
  using Fabric::receive;
  // Refuses every third message at first, as if there were no room.
  bool send(int to, const Tag& tag, const std::byte* data, int64_t bytes) override {
    std::lock_guard lock(mail_->mutex);
    if (++sends_ % 3 == 0 || !has_room(tag)) return false;
    mail_->box(instance_, to).put(tag, {data, data + bytes});
    has_moved(tag);
    mail_->events[static_cast<size_t>(to)].notify();
    return true;
  }
  bool receive(int from, const Tag& tag, int64_t bytes, const Use& use) override {
    std::lock_guard lock(mail_->mutex);
    if (!mail_->box(from, instance_).take(tag, bytes, name(from), use)) return false;
    has_moved(tag);
    return true;
  }
  EventCount& events() override { return mail_->events[static_cast<size_t>(instance_)]; }
  // Hooks for tests: has_room returns whether there is room for a message; has_moved is called
  // after a message was sent or received.
  std::function<bool(const Tag&)> has_room = [](const Tag&) { return true; };
  std::function<void(const Tag&)> has_moved = [](const Tag&) {};
  std::string end_of(int other) override {
    std::lock_guard lock(mail_->mutex);
    return mail_->ends[static_cast<size_t>(other)];
  }
  std::string name(int other) const override { return "instance " + std::to_string(other); }
  void forget(uint32_t program, uint32_t run) override {
    std::lock_guard lock(mail_->mutex);
    for (int from = 0; from < mail_->count; ++from)
      mail_->box(from, instance_).forget(program, run);
  }
  int64_t last_run(int other, uint32_t program) override {
    std::lock_guard lock(mail_->mutex);
    return mail_->box(other, instance_).last_run(program);
  }

 private:
  std::shared_ptr<Mail> mail_;
  int instance_;
  int64_t most_;
  bool is_on_this_host_;
  int sends_ = 0;
};

// Returns shares whose waits are not limited, unless the test sets a timeout.
inline std::vector<Share> local_shares(int instances, double timeout = 0, int64_t most = 64,
                                       bool on_one_host = false) {
  auto mail = std::make_shared<Mail>(instances);
  std::vector<Share> shares;
  for (int i = 0; i < instances; ++i) {
    shares.push_back({.instances = instances,
                      .instance = i,
                      .fabric = std::make_shared<LocalFabric>(mail, i, most, on_one_host),
                      .timeout = timeout});
  }
  return shares;
}

// Replaces the clock of all waits for instances during its lifetime.
class WaitClock {
 public:
  explicit WaitClock(std::function<double()> clock) { set_wait_clock(std::move(clock)); }
  ~WaitClock() { set_wait_clock({}); }
  WaitClock(const WaitClock&) = delete;
};

// Calls `work(instance)` in one thread per instance. Returns the error text of each, or "".
inline std::vector<std::string> in_threads(int instances, const std::function<void(int)>& work) {
  std::vector<std::string> raised(static_cast<size_t>(instances));
  std::vector<std::thread> threads;
  for (int i = 0; i < instances; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (const std::exception& error) {
        raised[static_cast<size_t>(i)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return raised;
}

// The ways in which operands reach other instances: as messages, in shared memory, as bulk
// transfers over wires, or, if two instances are on one host, in the way of their group.
enum class Joining { kSent, kNear, kLent, kMixed };

inline std::vector<Share> shares_by(Joining way, int instances, double timeout = 0) {
  if (way < Joining::kLent) return local_shares(instances, timeout, 64, way == Joining::kNear);
  Cluster cluster(instances, way == Joining::kMixed ? 2 : 1, 16);
  std::vector<Share> shares(static_cast<size_t>(instances));
  const auto raised = in_threads(instances, [&](int i) {  // those of one host wait for each other
    shares[static_cast<size_t>(i)] = {
        .instances = instances, .instance = i, .fabric = cluster.join(i), .timeout = timeout};
  });
  EXPECT_EQ(raised, std::vector<std::string>(shares.size()));
  return shares;
}

// Returns the rows of a stream's buffer that belong to an instance. `whole` has `places` rows per
// transfer, of which `mine` are the instance's.
inline Bytes rows_of(const Bytes& whole, int places, const std::vector<int>& mine,
                     int64_t transfers) {
  const size_t row = whole.size() / static_cast<size_t>(places * transfers);
  Bytes rows;
  for (int64_t t = 0; t < transfers; ++t) {
    for (int place : mine) {
      const auto at = whole.begin() +
                      static_cast<std::ptrdiff_t>(static_cast<size_t>(t * places + place) * row);
      rows.insert(rows.end(), at, at + static_cast<std::ptrdiff_t>(row));
    }
  }
  return rows;
}

// Returns the inputs of instance `share`: its part of made_up_inputs().
inline std::vector<Bytes> inputs_of(const program::Program& program, const Share& share) {
  const std::vector<Bytes> whole = made_up_inputs(program);
  std::vector<Bytes> inputs;
  for (const program::Stream& stream : program.streams) {
    if (!stream.host.to_device) continue;
    inputs.push_back(
        rows_of(whole[inputs.size()], program::groups_of(stream, program.replicas).count(),
                share.groups(program::groups_of(stream, program.replicas)), stream.transfers));
  }
  return inputs;
}

// Like outcome(), but for one instance: its rows, and the groups of states that it owns; others are
// 0. All states except sums of gradients begin with made-up numbers.
inline Outcome outcome_here(const program::Program& program, const EngineOptions& options,
                            int runs = 2) {
  Engine engine(program, ops::registry(), options);
  uint32_t seed = 100;
  for (const program::State& state : program.states) {
    if (state.slot.kind == "accumulator" || state.slot.type.dtype != ir::DType::kF32) continue;
    const auto count = static_cast<size_t>(engine.state().bytes(state.slot.name.text()) / 4);
    engine.state().write(state.slot.name.text(), bytes_of(numbers(count, seed++)).data());
  }
  Outcome result;
  for (int i = 0; i < runs; ++i) {
    result.outputs = run_once(engine, inputs_of(program, options.share));
  }
  result.states = states_of(engine);
  return result;
}

// Returns the expected outcome of instance `share`, derived from that of one process.
inline Outcome part_of(const Outcome& whole, const program::Program& program, const Share& share) {
  Outcome part;
  const auto mine = share.groups({program.replicas, 1, 1});
  for (const program::Stream& stream : program.streams) {
    if (stream.host.to_device) continue;
    part.outputs.push_back(
        rows_of(whole.outputs[part.outputs.size()], program.replicas, mine, stream.kept()));
  }
  for (const program::State& state : program.states) {
    const ir::StateSlot& slot = state.slot;
    Bytes bytes(whole.states.at(slot.name.text()).size());
    const auto size = static_cast<size_t>(slot.type.bytes());
    for (int group : share.groups(program::groups_of(slot, program.replicas))) {
      std::memcpy(bytes.data() + static_cast<size_t>(group) * size,
                  whole.states.at(slot.name.text()).data() + static_cast<size_t>(group) * size,
                  size);
    }
    part.states[slot.name.text()] = std::move(bytes);
  }
  return part;
}

// Checks every divisor of the replicas as the number of instances: all results are bit-identical to
// those of one process.
inline void expect_same_bits(const program::Program& program, const std::vector<int>& threads,
                             int runs, Joining way) {
  const Outcome whole = outcome_here(program, {.threads = 1}, runs);
  for (int instances = 2; instances <= program.replicas; ++instances) {
    if (program.replicas % instances != 0) continue;
    if (way == Joining::kMixed && instances % 2 != 0) continue;
    for (int count : threads) {
      const std::vector<Share> shares = shares_by(way, instances);
      const auto raised = in_threads(instances, [&](int i) {
        const Share& share = shares[static_cast<size_t>(i)];
        EngineOptions options{.threads = count};
        options.share = share;
        const Outcome here = outcome_here(program, options, runs);
        EXPECT_EQ(here, part_of(whole, program, share))
            << "instance " << i << " of " << instances << ", " << count << " threads"
            << ", way " << static_cast<int>(way);
      });
      EXPECT_EQ(raised, std::vector<std::string>(static_cast<size_t>(instances)));
    }
  }
}

inline constexpr Joining kJoinings[] = {Joining::kSent, Joining::kNear, Joining::kLent,
                                        Joining::kMixed};

inline void expect_same_bits(const program::Program& program, const std::vector<int>& threads,
                             int runs = 2) {
  for (Joining way : kJoinings) expect_same_bits(program, threads, runs, way);
}

// Runs the case of this number in every way, with another count of threads in each. Three cases
// have all pairs of a way and a count.
inline void expect_same_bits_by_turns(const program::Program& program,
                                      const std::vector<int>& threads, size_t number) {
  for (Joining way : kJoinings) {
    expect_same_bits(program, {threads[number++ % threads.size()]}, 2, way);
  }
}

// Two linear layers with dropout between them, on two pipelined IPUs, with momentum; gradients are
// summed over all replicas.
inline program::Program training_program(int replicas, int micro_batches = 4) {
  auto module = ir::parse(kTrainedNet, ops::registry());
  ir::Execution& execution = module->execution();
  execution.training = true;
  execution.device_iterations = 2;
  execution.gradient_accumulation = micro_batches;
  execution.replication_factor = replicas;
  execution.optimiser = momentum_sgd();
  return std::move(compile::compile_to_program(std::move(module), {}, {}).program);
}

}  // namespace poptorch::emulator
