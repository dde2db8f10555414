// Records graphs beside the surrounding one while the user's code runs: loop bodies, branches, the
// forward and backward of an autograd.Function. Values that their ops use from the surrounding
// graph become their inputs; constants are made again.
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
  // Describes a tensor from outside that the region writes. It held `before`, which is `outer` in
  // the surrounding graph, and holds `after` at the end.
  struct Written {
    Root* root;
    ir::Value* before;
    ir::Value* outer;
    ir::Value* after = nullptr;
  };

  explicit Region(ir::Graph& graph) : graph_(&graph) {}

  ir::Graph& graph() const { return *graph_; }
  // Returns, for each input, the value of the surrounding graph that it stands for, or nullptr.
  const std::vector<ir::Value*>& operands() const { return operands_; }
  // Adds an input that stand_in() and input_for() do not find.
  ir::Value* add_argument(ir::Value* outer, const ir::Type& type);
  // Returns the value that stands for `outer`, held by `owner`. Each owner has a separate one,
  // because it may be written later.
  ir::Value* stand_in(ir::Value* outer, const Root* owner);
  // Like stand_in(), but returns an input even for a constant. settle() replaces the constant's
  // stand-in by it.
  ir::Value* input_for(ir::Value* outer, const Root* owner);
  // Returns true for a constant that stands for one from outside.
  bool stands_in(const ir::Value* value) const;
  // Makes `results` the graph's outputs; the recording is then complete.
  void settle();

  std::vector<ir::Value*> results;
  std::vector<Written> written;

 private:
  using Key = std::pair<const ir::Value*, const Root*>;

  ir::Graph* graph_;
  std::vector<ir::Value*> operands_;
  std::map<Key, ir::Value*> inputs_, constants_;  // look-up only
};

// Holds the open regions, one inside the other.
class Regions {
 public:
  // `builder` always emits into the innermost region.
  explicit Regions(ir::Builder& builder) : builder_(builder) {}

  bool empty() const { return open_.empty(); }
  // `scratch`: the graph is only a recording; erase_scratch() erases it.
  std::shared_ptr<Region> open(const std::string& name, bool scratch);
  void close();
  void erase_scratch(ir::Module& module) const;
  const std::shared_ptr<Region>& innermost() const { return open_.back().region; }
  // Returns the placement where the outermost region began.
  const ir::Placement& placement() const { return open_.front().outer.placement; }
  bool stands_in(const ir::Value* value) const;  // in one of them
  // Returns `value` as seen from the innermost region, or from `outwards` levels further out.
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

// Emit the op that runs the recorded regions. Its results are the regions' results, then the values
// of the written tensors, which `written` lists.
ir::Op* emit_repeat(ir::Builder& builder, Region& body, int64_t count);
ir::Op* emit_if(ir::Builder& builder, ir::Value* condition, Region& then_region,
                Region& else_region);
// Returns the tensors that at least one of the branches writes.
std::vector<Region::Written> written_by(const Region& then_region, const Region& else_region);

}  // namespace poptorch::frontend
