// The state of an Executor.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/torch/compile.hpp"
#include "frontends/torch/libtorch/options.hpp"
#include "frontends/torch/libtorch/replica_groups.hpp"
#include "poptorch/poptorch.hpp"
#include "session/schedule.hpp"
#include "support/error.hpp"

namespace poptorch {

struct Executor::State {
  State(std::shared_ptr<torch::nn::Module> wrapped, const Options& options, bool training)
      : module(std::move(wrapped)), said(options, training) {}

  // Returns the executable. UserError unless the model is compiled.
  frontend::TorchExecutable& compiled() const {
    if (executable) return *executable;
    throw support::UserError("[run] the model is not compiled yet. Call it once first.");
  }
  // Returns the parameters, then the buffers, named by path.
  std::vector<frontend::NamedTensor> tensors() const;
  ir::OptimiserSpec described(const torch::optim::Optimizer& optimizer) const;
  // Traces and compiles for inputs of one micro-batch.
  std::unique_ptr<frontend::TorchExecutable> compiled_for(std::vector<at::Tensor> inputs,
                                                          const Forward& forward,
                                                          const compile::HostOptions& host);
  // Throws a UserError for an anchor that does not name a value.
  void check_anchors(const frontend::TorchExecutable& made) const;
  session::Schedule scheduled(int64_t micro_batches) const;

  std::shared_ptr<torch::nn::Module> module;
  Description said;
  std::optional<ir::OptimiserSpec> optimiser;  // as the device has it
  frontend::ReplicaGroupings groupings;
  std::vector<at::Tensor> holders;  // of all values of grouped parameters, whose memory they share
  std::unique_ptr<frontend::TorchExecutable> executable;
  std::vector<at::Tensor> anchored;  // of the last run
  std::atomic<bool> stop{false};
};

}  // namespace poptorch
