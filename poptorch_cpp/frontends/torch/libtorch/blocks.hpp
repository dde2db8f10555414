// The modules at which blocks begin, as a trace needs them.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontends/torch/tracer/tracer.hpp"

namespace poptorch::frontend {

// begin_block's annotations in one model. UserError where a beginning could not be seen.
class BegunBlocks {
 public:
  // `state`: the model's slots.
  BegunBlocks(const torch::nn::Module& model, const std::vector<NamedTensor>& state);

  // By slot: the block that begins with each use of it. Of a module, these are its parameters that
  // no other module has, up to the first module in it that begins a block of its own.
  const std::map<std::string, BlockBegin>& by_slot() const { return by_slot_; }
  // UserError for a module that `main`, what forward did, does not use, and for modules that run in
  // another order than they were annotated.
  void check(const ir::Graph& main) const;

 private:
  // By parameter: the modules that have it.
  using Holders = std::map<const c10::TensorImpl*, std::set<const torch::nn::Module*>>;
  struct Begun {
    std::string text;  // what the user wrote, and where
    std::string path;  // of the module
    BlockBegin block;
    Holders inside = {};                  // in the module
    std::vector<std::string> slots = {};  // at which it begins
  };

  static Holders holders_in(const torch::nn::Module& module);
  bool visit(const torch::nn::Module& module, const std::string& path, Begun* around);
  void begin_at(const at::Tensor& parameter, Begun& begun);

  std::map<const c10::TensorImpl*, std::string> slots_;  // by parameter
  Holders holders_;
  std::map<uint64_t, Begun> begun_;  // in the order of annotating
  std::map<std::string, BlockBegin> by_slot_;
};

}  // namespace poptorch::frontend
