// A module: graphs by name, and the things that live outside any graph: state slots, host streams
// and remote buffers, and how all of it is to be executed. Graph `main` is the entry.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/execution.hpp"
#include "ir/graph.hpp"

namespace poptorch::ir {

// A named slot of device state: a weight, optimiser state, accumulator, hyper-parameter, random
// generator state. The session owns its bytes; the IR only names it (`variable()
// {name="fc.weight"}`).
struct StateSlot {
  Symbol name;
  Type type;  // on one replica
  // "parameter", "buffer", "optimiser_state", "accumulator", "hyper_parameter", "rng"
  std::string kind = "parameter";
  // Replicas that share one value: groups of `group_size` replicas, `group_stride` apart.
  // group_size 0: all replicas share one value.
  int group_size = 0;
  int group_stride = 1;
  // What a slot holds before anyone writes it; absent: zeros.
  std::optional<Literal> initial = std::nullopt;
};

struct HostStream {
  Symbol name;
  Type type;  // of one transfer
  bool to_device = true;
};

// Rows of Streaming Memory: `entries` tensors of one type.
struct RemoteBuffer {
  Symbol name;
  Type type;
  int64_t entries = 1;
};

// Replicas of a program, and replicas between two of a group.
constexpr int kMaxReplicas = 1 << 15;
constexpr int64_t kMaxRounds = int64_t{1} << 62;  // of a body in a run, with the loops around it

// What keeps it from being declared, as a sentence; empty when nothing does.
std::string defect_of(const StateSlot& slot);
std::string defect_of(const HostStream& stream);
std::string defect_of(const RemoteBuffer& buffer);

class Module {
 public:
  explicit Module(const Registry& registry) : registry_(&registry) {}
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Registry& registry() const { return *registry_; }

  Graph& add_graph(Symbol name);  // UserError when the name is taken or no text
  Graph* find_graph(Symbol name) const;
  Graph& main() const;  // InternalError when there is none
  void erase_graph(Symbol name);
  const std::vector<std::unique_ptr<Graph>>& graphs() const { return graphs_; }

  // Each declares once; a defect or a second declaration with another type is a UserError.
  StateSlot& add_state(StateSlot slot);
  HostStream& add_stream(HostStream stream);
  RemoteBuffer& add_remote_buffer(RemoteBuffer buffer);
  StateSlot* find_state(Symbol name) const;
  HostStream* find_stream(Symbol name) const;
  RemoteBuffer* find_remote_buffer(Symbol name) const;
  const std::vector<std::unique_ptr<StateSlot>>& states() const { return states_; }
  const std::vector<std::unique_ptr<HostStream>>& streams() const { return streams_; }
  const std::vector<std::unique_ptr<RemoteBuffer>>& remote_buffers() const { return buffers_; }

  Execution& execution() { return execution_; }
  const Execution& execution() const { return execution_; }

  uint64_t next_op_id();
  // The next op gets this id; those behind it get ones above all others. An id that was given
  // before is refused by the verifier.
  void give_next_op_id(uint64_t id) { given_op_id_ = id; }
  // True from when the verifier accepted the module until a graph or declaration is added, or
  // anything of a graph changes but names, placements, scopes and locations.
  bool is_verified() const { return verified_; }
  void mark_verified() const { verified_ = true; }
  void note_change() { verified_ = false; }
  // A deep copy that keeps op ids, names and order.
  std::unique_ptr<Module> clone() const;

 private:
  const Registry* registry_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<std::unique_ptr<StateSlot>> states_;
  std::vector<std::unique_ptr<HostStream>> streams_;
  std::vector<std::unique_ptr<RemoteBuffer>> buffers_;
  std::unordered_map<std::string, Graph*> graphs_by_name_;      // look-up only, never iterated
  std::unordered_map<std::string, StateSlot*> states_by_name_;  // likewise
  Execution execution_;
  uint64_t next_op_id_ = 1, given_op_id_ = 0;
  mutable bool verified_ = false;
};

// Copies the ops of `from` into `to` before `before`, mapping `from`'s inputs to `arguments`;
// returns the values that stand for `from`'s outputs. Ids are new; the rest is kept. This is how
// calls are inlined and graphs cloned.
std::vector<Value*> copy_ops(const Graph& from, Graph& to, const std::vector<Value*>& arguments,
                             Op* before = nullptr);

}  // namespace poptorch::ir
