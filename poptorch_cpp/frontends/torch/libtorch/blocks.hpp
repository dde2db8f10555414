// The blocks of a trace: those that have begun, their places, and the modules at which they begin.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "poptorch/strategies.hpp"

namespace poptorch::frontend {

// The user's description of a block. An empty id stands for the next number.
struct BlockSpec {
  std::string user_id;
  std::optional<int> ipu_id;
  std::string line;  // " (file:line)"
};

// Places this thread's blocks by a strategy while it lives.
class BlockRecorder {
 public:
  explicit BlockRecorder(const ExecutionStrategy& strategy);
  ~BlockRecorder();
  BlockRecorder(const BlockRecorder&) = delete;
  BlockRecorder& operator=(const BlockRecorder&) = delete;

  // Returns the recorder of the running trace, or nullptr.
  static BlockRecorder* current();

  // Puts the following ops into the block and returns its id. `id_before` is its id from earlier in
  // this trace. UserError for a block without a place, or with another place than before.
  std::string begin(const BlockSpec& block, bool scoped, const std::string& id_before = "");
  void reset_ids() { automatic_ids_ = 0; }

 private:
  struct Begun {
    ExecutionStrategy::Place place;
    int count, first;  // the strategy's arguments for it
    std::string line;
  };
  ExecutionStrategy::Place place(const std::string& id, std::optional<int> ipu_id, int count,
                                 int first, const std::string& line) const;

  const ExecutionStrategy& strategy_;
  std::map<std::string, Begun> begun_;  // by id
  int automatic_ids_ = 0;
  BlockRecorder* outer_;
};

// The annotations by begin_block in one model. UserError if a block's beginning cannot be detected.
class BegunBlocks {
 public:
  // `state` are the model's slots.
  BegunBlocks(const torch::nn::Module& model, const std::vector<NamedTensor>& state);

  // Notes the use of a slot, and begins the block that begins with it, if any. A module's slots are
  // its parameters that no other module has, up to the first inner module that begins a block.
  void use(const std::string& slot);
  // Throws a UserError for a module that `main`, the graph of forward, does not use, and for
  // modules that run in another order than they were annotated.
  void check(const ir::Graph& main) const;

 private:
  // Maps a parameter to the modules that have it.
  using Holders = std::map<const c10::TensorImpl*, std::set<const torch::nn::Module*>>;
  struct Begun {
    std::string text;  // the user's call and line, for messages
    std::string path;  // of the module
    BlockSpec block;
    Holders inside;                  // in the module
    std::vector<std::string> slots;  // at which it begins
    std::string entered_as;          // its id in the trace
  };

  static Holders holders_in(const torch::nn::Module& module);
  bool visit(const torch::nn::Module& module, const std::string& path, Begun* around);
  void begin_at(const at::Tensor& parameter, Begun& begun);

  std::map<const c10::TensorImpl*, std::string> slots_;  // by parameter
  Holders holders_;
  std::map<uint64_t, Begun> begun_;  // in the order of the annotations
  std::map<std::string, Begun*> by_slot_;
};

}  // namespace poptorch::frontend
