// Train and run torch::nn modules on emulated IPUs, in processes with or without Python.
//
//   auto training = poptorch::trainingModel(network, poptorch::Options(), optimizer);
//   auto outputs = training(images, labels);  // {scores, loss}: what forward returned, flat
//
// Errors are exceptions derived from std::runtime_error whose text says what to do; those of a
// failed device have classes of their own (poptorch/errors.hpp).
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
#include "poptorch/ops.hpp"
#include "poptorch/optim.hpp"
#include "poptorch/options.hpp"
#include "poptorch/report.hpp"
#include "poptorch/saved.hpp"
#include "poptorch/strategies.hpp"

namespace poptorch {

// What a call ends with that interrupt() has stopped.
class Interrupted : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A wrapped module, whatever its class. Not thread-safe, but for interrupt().
class Executor {
 public:
  using Tensors = poptorch::Tensors;
  using Forward = std::function<Tensors(const Tensors&)>;

  // `module` lives as long as this. A training model needs an optimiser: SGD, Adam, AdamW or
  // RMSprop of torch::optim, or one of poptorch::optim.
  Executor(std::shared_ptr<torch::nn::Module> module, const Options& options,
           const torch::optim::Optimizer* optimizer);
  ~Executor();
  Executor(Executor&&) noexcept;

  // A parameter has a value for each group of `shards` replicas. Its first dimension is the number
  // of groups (of replicas, with AllReplicas); forward sees one value. Before the first call.
  void replicaGrouping(const torch::Tensor& parameter, CommGroupType type, int64_t shards,
                       VariableRetrievalMode mode);

  // One call. The first one traces `forward` and compiles; later ones want the same shapes. Rows of
  // the inputs: micro-batch times gradientAccumulation times deviceIterations times the groups of
  // replicas that read other rows.
  Tensors run(const Tensors& inputs, const Forward& forward);
  // Traces and compiles for inputs like these, without running.
  void compile(const Tensors& inputs, const Forward& forward);
  // Ends the call under way, if there is one, within half a second: it throws Interrupted. From any
  // thread, or the handler of a signal. Of the step at hand, some weights may then be updated on
  // the device and some not; copyWeightsToDevice() puts the module's there.
  void interrupt() noexcept;
  bool isCompiled() const;

  // After training the module's own tensors are stale until they are copied; a changed module has
  // no effect on the device until it is copied there.
  void copyWeightsToHost();
  void copyWeightsToDevice();
  void copyNamedBuffersToDevice();  // those of Options::updatableNamedBuffers
  // New values of the learning rate and of all that is variable: what differed from torch's default
  // at compilation, or was set of an optimiser of poptorch::optim.
  void setOptimizer(const torch::optim::Optimizer& optimizer);

  // What Options::anchorTensor can name: values, and state by the names of its slots.
  std::vector<std::string> getTensorNames() const;
  // The last run's values of what the anchor matches, by name; state is as the run left it.
  std::map<std::string, torch::Tensor> getAnchoredTensor(const std::string& short_name) const;
  // State by slot: parameters and buffers by path, the optimiser's as optimiser.exp_avg.<path>.
  std::vector<std::string> stateNames() const;
  torch::Tensor readState(const std::string& slot) const;
  void writeState(const std::string& slot, const torch::Tensor& value);
  // Seed of the device's random numbers, and how many micro-batches have drawn from them.
  std::pair<uint64_t, uint64_t> rngState() const;
  void setRngState(std::pair<uint64_t, uint64_t> state);

  // Writes the executable with its state to a file, whole or not at all: see saved.hpp.
  void save(const std::string& path) const;

  // The text of a form: "traced", "normal", "differentiated", "placed" or "program".
  std::string graph(const std::string& form) const;
  Report report() const;
  // Of the first `micro_batches` of a run; printSchedule draws it on the standard output.
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

  // forward's results, flat, in order: tensors, or vectors, tuples and pairs of them.
  template <std::convertible_to<torch::Tensor>... Inputs>
  Tensors operator()(const Inputs&... inputs) {
    return run({inputs...}, forward(std::make_index_sequence<sizeof...(Inputs)>()));
  }
  using Executor::compile;
  template <std::convertible_to<torch::Tensor>... Inputs>
  void compile(const Inputs&... inputs) {
    Executor::compile({inputs...}, forward(std::make_index_sequence<sizeof...(Inputs)>()));
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

// The module's forward must return its loss, as one of its results. The optimiser's numbers are
// read now; a torch::optim::Optimizer that changes later is passed to setOptimizer.
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

// Takes the module's weights as they are at the first call, and its mode: call eval() before.
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
