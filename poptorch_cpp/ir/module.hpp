// A module: graphs by name, the objects outside any graph (state slots, host streams and remote
// buffers), and how all of it is to be executed. Graph `main` is the entry.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.hpp"
#include "ir/slots.hpp"

namespace poptorch::ir {

class Registry;    // op_def.hpp
struct Execution;  // execution.hpp

class Module {
 public:
  explicit Module(const Registry& registry);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Registry& registry() const { return *registry_; }

  Graph& add_graph(Symbol name);  // UserError if the name is taken or no text
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

  Execution& execution() { return *execution_; }
  const Execution& execution() const { return *execution_; }

  uint64_t next_op_id();
  uint64_t newest_op_id() const { return next_op_id_ - 1; }  // the highest, or 0
  // Gives the next op this id; later ops receive ids above all others. The verifier refuses an id
  // that was used before.
  void give_next_op_id(uint64_t id) { given_op_id_ = id; }
  // True once the verifier accepted the module, until a graph or declaration is added, or a graph
  // changes in anything but names, placements, scopes and locations.
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
  std::unordered_map<std::string, StateSlot*> states_by_name_;  // look-up only, never iterated
  std::unique_ptr<Execution> execution_;
  uint64_t next_op_id_ = 1, given_op_id_ = 0;
  mutable bool verified_ = false;
};

// Copies the ops of `from` into `to` before `before`, and maps the inputs of `from` to `arguments`.
// Returns the values that replace the outputs of `from`. Ids are new; the rest is kept. Inlining of
// calls and cloning of graphs use this.
std::vector<Value*> copy_ops(const Graph& from, Graph& to, const std::vector<Value*>& arguments,
                             Op* before = nullptr);

}  // namespace poptorch::ir
