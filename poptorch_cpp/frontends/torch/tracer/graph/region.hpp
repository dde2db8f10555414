// Graphs that are recorded beside the one around them while the user's code runs: bodies of loops,
// branches, the forward and backward of an autograd.Function. What their ops use of the graph
// around becomes their inputs; constants are made anew.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.hpp"

namespace poptorch::frontend {

class Root;

class Region {
 public:
  // A tensor from around that is written: what it held before, which is `outer` in the graph
  // around, and what it holds at the end.
  struct Written {
    Root* root;
    ir::Value* before;
    ir::Value* outer;
    ir::Value* after = nullptr;
  };

  explicit Region(ir::Graph& graph) : graph_(&graph) {}

  ir::Graph& graph() const { return *graph_; }
  // By input: the value of the graph around that it stands for; nullptr: nothing there.
  const std::vector<ir::Value*>& operands() const { return operands_; }
  // A new input, which nothing from around finds.
  ir::Value* add_argument(ir::Value* outer, const ir::Type& type);
  // What stands for `outer`, held by `owner`. Each owner has its own: it may come to be written.
  ir::Value* stand_in(ir::Value* outer, const Root* owner);
  // As stand_in, but an input even for a constant, whose stand-ins it becomes in settle().
  ir::Value* input_for(ir::Value* outer, const Root* owner);
  // Whether it is a constant in the place of one from around.
  bool stands_in(const ir::Value* value) const;
  // Makes `results` the graph's outputs; the recording is complete.
  void settle();

  std::vector<ir::Value*> results;
  std::vector<Written> written;

 private:
  using Key = std::pair<const ir::Value*, const Root*>;

  ir::Graph* graph_;
  std::vector<ir::Value*> operands_;
  std::map<Key, ir::Value*> inputs_, constants_;  // look-up only
};

// The regions that are open, one inside the other.
class Regions {
 public:
  // `builder` is turned to the innermost one.
  explicit Regions(ir::Builder& builder) : builder_(builder) {}

  bool empty() const { return open_.empty(); }
  // `scratch`: the graph is only a recording; erase_scratch() erases it.
  std::shared_ptr<Region> open(const std::string& name, bool scratch);
  void close();
  void erase_scratch(ir::Module& module) const;
  const std::shared_ptr<Region>& innermost() const { return open_.back().region; }
  // Where the outermost region began.
  const ir::Placement& placement() const { return open_.front().outer.placement; }
  bool stands_in(const ir::Value* value) const;  // in one of them
  // `value` as seen from the innermost region; `outwards` levels less.
  ir::Value* bring(ir::Value* value, const Root* owner, size_t outwards = 0) const;

 private:
  struct Open {
    std::shared_ptr<Region> region;
    ir::Builder outer;
  };
  ir::Builder& builder_;
  std::vector<Open> open_;
  std::vector<ir::Symbol> scratch_;
};

ir::Graph& fresh_graph(ir::Module& module, const std::string& name);

// Emit the op that runs what was recorded. Its results: the regions' own, then what the written
// tensors hold; `written` tells which those are.
ir::Op* emit_repeat(ir::Builder& builder, Region& body, int64_t count);
ir::Op* emit_if(ir::Builder& builder, ir::Value* condition, Region& then_region,
                Region& else_region);
// The tensors that one of the branches writes.
std::vector<Region::Written> written_by(const Region& then_region, const Region& else_region);

}  // namespace poptorch::frontend
