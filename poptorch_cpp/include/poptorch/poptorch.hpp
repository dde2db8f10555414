// Trains and runs torch::nn modules on emulated IPUs, in processes with or without Python.
//
//   auto training = poptorch::trainingModel(network, poptorch::Options(), optimizer);
//   auto outputs = training(images, labels);  // {scores, loss}: what forward returned, flat
//
// Errors are exceptions derived from std::runtime_error whose text says what to do. Failures of the
// device have separate classes (poptorch/errors.hpp).
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "poptorch/blocks.hpp"
#include "poptorch/distributed.hpp"
#include "poptorch/errors.hpp"
#include "poptorch/estimate.hpp"
#include "poptorch/ops.hpp"
#include "poptorch/optim.hpp"
#include "poptorch/options.hpp"
#include "poptorch/report.hpp"
#include "poptorch/saved.hpp"
#include "poptorch/strategies.hpp"

namespace poptorch {

// Thrown by a call that interrupt() has stopped.
class Interrupted : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A wrapped module of any class. Only interrupt() is thread-safe.
class Executor {
 public:
  using Tensors = poptorch::Tensors;
  using Forward = std::function<Tensors(const Tensors&)>;

  // Keeps `module` alive. A training model needs an optimiser: SGD, Adam, AdamW or RMSprop of
  // torch::optim, or one of poptorch::optim. For inference `optimizer` is nullptr.
  Executor(std::shared_ptr<torch::nn::Module> module, const Options& options,
           const torch::optim::Optimizer* optimizer);
  ~Executor();
  Executor(Executor&&) noexcept;

  // Gives a parameter a value for each group of `shards` replicas. Its first dimension is the
  // number of groups (of replicas, with AllReplicas); forward sees one value. Throws after the
  // first call.
  void replicaGrouping(const torch::Tensor& parameter, CommGroupType type, int64_t shards,
                       VariableRetrievalMode mode);

  // Runs the model once and returns forward's results. The first call traces `forward` and
  // compiles; later calls need the same shapes. The number of rows of the inputs is the micro-batch
  // times gradientAccumulation, times deviceIterations, times the groups of replicas that read
  // different rows.
  Tensors run(const Tensors& inputs, const Forward& forward);
  // Traces and compiles for inputs like these, without running.
  void compile(const Tensors& inputs, const Forward& forward);
  // Returns the memory and the throughput of the model for inputs of one micro-batch. It is traced
  // and compiled as in compile(), but nothing is allocated and nothing runs. The module and the
  // inputs may be on device meta.
  Estimate estimate(const Tensors& inputs, const Forward& forward);
  // Ends the running call, if there is one, within half a second: the call throws Interrupted. Any
  // thread or signal handler may call this. Some weights of the current step may then be updated on
  // the device and some not; copyWeightsToDevice() restores the module's.
  void interrupt() noexcept;
  bool isCompiled() const;

  // Copy weights between the module and the device. After training the module's own tensors are
  // stale until they are copied. A changed module has no effect on the device until it is copied
  // there.
  void copyWeightsToHost();
  void copyWeightsToDevice();
  void copyNamedBuffersToDevice();  // those of Options::updatableNamedBuffers
  // Updates the learning rate and all variable arguments. An argument is variable if it differed
  // from torch's default at compilation, or was set in an optimiser of poptorch::optim.
  void setOptimizer(const torch::optim::Optimizer& optimizer);

  // Returns the names that Options::anchorTensor takes: values, and state by the names of its
  // slots.
  std::vector<std::string> getTensorNames() const;
  // Returns the last run's values that the anchor matches, by name; state is as the run left it.
  std::map<std::string, torch::Tensor> getAnchoredTensor(const std::string& short_name) const;
  // Read and write state by slot: parameters and buffers have their path, the optimiser's state
  // names like optimiser.exp_avg.<path>.
  std::vector<std::string> stateNames() const;
  torch::Tensor readState(const std::string& slot) const;
  void writeState(const std::string& slot, const torch::Tensor& value);
  // Read and set the seed of the device's random numbers, and how many micro-batches have drawn
  // from them.
  std::pair<uint64_t, uint64_t> rngState() const;
  void setRngState(std::pair<uint64_t, uint64_t> state);

  // Writes the executable with its state to a file, atomically: see saved.hpp.
  void save(const std::string& path) const;

  // Returns the text of an IR stage: "traced", "normal", "differentiated", "placed" or "program".
  std::string graph(const std::string& form) const;
  Report report() const;
  // Returns the schedule of the first `micro_batches` of a run; printSchedule draws it on the
  // standard output.
  Schedule schedule(int64_t micro_batches = 64) const;
  void printSchedule(int64_t micro_batches = 64) const;

 private:
  Tensors call(const Tensors& inputs, const Forward& forward);
  void make_executable(const Tensors& inputs, const Forward& forward);
  void watched(const std::function<void()>& work);

  struct State;
  std::unique_ptr<State> state_;
};

namespace detail {

inline void flatten(const torch::Tensor& tensor, Executor::Tensors& flat) {
  flat.push_back(tensor);
}
template <typename Element>
void flatten(const std::vector<Element>& list, Executor::Tensors& flat) {
  for (const Element& element : list) flatten(element, flat);
}
template <typename... Elements>
void flatten(const std::tuple<Elements...>& elements, Executor::Tensors& flat) {
  std::apply([&](const auto&... element) { (flatten(element, flat), ...); }, elements);
}
template <typename First, typename Second>
void flatten(const std::pair<First, Second>& elements, Executor::Tensors& flat) {
  flatten(elements.first, flat);
  flatten(elements.second, flat);
}

}  // namespace detail

// An Executor that knows how to call the module's forward.
template <typename Module>
class Model : public Executor {
 public:
  Model(std::shared_ptr<Module> module, const Options& options,
        const torch::optim::Optimizer* optimizer)
      : Executor(module, options, optimizer), module_(std::move(module)) {}

  // Runs the model once. Returns forward's results, flat, in order. forward may return tensors, or
  // vectors, tuples and pairs of them.
  template <std::convertible_to<torch::Tensor>... Inputs>
  Tensors operator()(const Inputs&... inputs) {
    return run({inputs...}, forward(std::make_index_sequence<sizeof...(Inputs)>()));
  }
  using Executor::compile;
  template <std::convertible_to<torch::Tensor>... Inputs>
  void compile(const Inputs&... inputs) {
    Executor::compile({inputs...}, forward(std::make_index_sequence<sizeof...(Inputs)>()));
  }
  using Executor::estimate;
  template <std::convertible_to<torch::Tensor>... Inputs>
  Estimate estimate(const Inputs&... inputs) {
    return Executor::estimate({inputs...}, forward(std::make_index_sequence<sizeof...(Inputs)>()));
  }

 private:
  template <size_t... I>
  Forward forward(std::index_sequence<I...>) {
    return [this](const Tensors& traced) {
      Tensors flat;
      detail::flatten(module_->forward(traced[I]...), flat);
      return flat;
    };
  }

  std::shared_ptr<Module> module_;
};

// Wraps a module for training. Its forward must return its loss, as one of its results. The
// optimiser's numbers are read now; pass a torch::optim::Optimizer that changes later to
// setOptimizer.
template <typename Module>
Model<Module> trainingModel(std::shared_ptr<Module> module, const Options& options,
                            const torch::optim::Optimizer& optimizer) {
  return Model<Module>(std::move(module), options, &optimizer);
}
template <typename Module>
Model<Module> trainingModel(const torch::nn::ModuleHolder<Module>& module, const Options& options,
                            const torch::optim::Optimizer& optimizer) {
  return Model<Module>(module.ptr(), options, &optimizer);
}

// Wraps a module for inference. The first call takes the module's weights, and its mode: call
// eval() before.
template <typename Module>
Model<Module> inferenceModel(std::shared_ptr<Module> module, const Options& options = {}) {
  return Model<Module>(std::move(module), options, nullptr);
}
template <typename Module>
Model<Module> inferenceModel(const torch::nn::ModuleHolder<Module>& module,
                             const Options& options = {}) {
  return Model<Module>(module.ptr(), options, nullptr);
}

}  // namespace poptorch
