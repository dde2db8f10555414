// The blocks of a trace: which have begun and where they are, and the modules at which they begin.
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

// What the user says of a block. An empty id: the next number.
struct BlockSpec {
  std::string user_id;
  std::optional<int> ipu_id;
  std::string line;  // " (file:line)"
};

// While it lives, this thread's blocks are placed by a strategy.
class BlockRecorder {
 public:
  explicit BlockRecorder(const ExecutionStrategy& strategy);
  ~BlockRecorder();
  BlockRecorder(const BlockRecorder&) = delete;
  BlockRecorder& operator=(const BlockRecorder&) = delete;

  // That of the running trace, or nullptr.
  static BlockRecorder* current();

  // Ops that follow belong to the block. Gives its id; `id_before`: what it got earlier in this
  // trace. UserError for a block that has no place, or had another one.
  std::string begin(const BlockSpec& block, bool scoped, const std::string& id_before = "");
  void reset_ids() { automatic_ids_ = 0; }

 private:
  struct Begun {
    ExecutionStrategy::Place place;
    int count, first;  // that the strategy got for it
    std::string line;
  };
  ExecutionStrategy::Place place(const std::string& id, std::optional<int> ipu_id, int count,
                                 int first, const std::string& line) const;

  const ExecutionStrategy& strategy_;
  std::map<std::string, Begun> begun_;  // by id
  int automatic_ids_ = 0;
  BlockRecorder* outer_;
};

// begin_block's annotations in one model. UserError where a beginning could not be seen.
class BegunBlocks {
 public:
  // `state`: the model's slots.
  BegunBlocks(const torch::nn::Module& model, const std::vector<NamedTensor>& state);

  // A slot is used: the block begins that begins with it, if there is one. Of a module, these are
  // its parameters that no other module has, up to the first module in it that begins a block.
  void use(const std::string& slot);
  // UserError for a module that `main`, what forward did, does not use, and for modules that run in
  // another order than they were annotated.
  void check(const ir::Graph& main) const;

 private:
  // By parameter: the modules that have it.
  using Holders = std::map<const c10::TensorImpl*, std::set<const torch::nn::Module*>>;
  struct Begun {
    std::string text;  // what the user wrote, and where
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
  std::map<uint64_t, Begun> begun_;  // in the order of annotating
  std::map<std::string, Begun*> by_slot_;
};

}  // namespace poptorch::frontend
