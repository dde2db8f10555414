// Train and run torch::nn modules on emulated IPUs, in processes with or without Python.
//
//   auto training = poptorch::trainingModel(network, poptorch::Options(), optimizer);
//   auto outputs = training(images, labels);  // {scores, loss}: what forward returned, flat
//
// Errors are exceptions derived from std::runtime_error whose text says what to do.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace poptorch {

// Which steps of a call return their outputs: the last, every n-th, all, or the sum of all.
enum class OutputMode { Default, Final, EveryN, All, Sum };

// How a model that is divided into blocks runs on several IPUs.
enum class ExecutionStrategy { Pipelined, Sharded };

// While it lives, what forward computes belongs to a block, which runs on an IPU. Does nothing
// outside of a trace. A block's stage is its IPU unless another one is given.
class Block {
 public:
  Block(const std::string& user_id, int ipu_id, int stage = -1,
        std::source_location where = std::source_location::current());
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
};

// From the first use of one of the module's own parameters on, forward belongs to the block, until
// the next one begins: where a module in it begins a block, until there. The annotation ends with
// the module, and clones have none. Annotate modules in the order in which they run. Refuses a
// second block, a module without parameters and, at the first call, one that forward does not use.
void begin_block(const torch::nn::Module& module, const std::string& user_id, int ipu_id,
                 int stage = -1, std::source_location where = std::source_location::current());
// The module, and all modules in it, begin no blocks any more.
void remove_blocks(const torch::nn::Module& module);

class Options {
 public:
  Options& executionStrategy(ExecutionStrategy strategy);
  // Reserve the next power of two of IPUs, where another number is an error.
  Options& autoRoundNumIPUs(bool round = true);
  // Steps in one call: inputs hold as many times the rows of a step.
  Options& deviceIterations(int64_t count);
  // Micro-batches in one step: gradients are accumulated, then the weights updated once.
  Options& gradientAccumulation(int64_t count);
  // Default: Final in training, All in inference. `period` belongs to EveryN.
  Options& outputMode(OutputMode mode, int64_t period = 1);
  Options& randomSeed(uint64_t seed);

 private:
  friend class Executor;
  int64_t device_iterations_ = 1;
  int64_t gradient_accumulation_ = 1;
  OutputMode output_mode_ = OutputMode::Default;
  int64_t output_period_ = 1;
  uint64_t random_seed_ = 0;
  ExecutionStrategy strategy_ = ExecutionStrategy::Pipelined;
  bool round_ipu_count_ = false;
};

// What one emulated IPU holds.
struct IpuMemory {
  int64_t state_bytes = 0;  // weights, optimiser state
  int64_t arena_bytes = 0;  // activations and gradients, at their peak
  int64_t code_bytes = 0;
  int64_t capacity_bytes = 0;
};

// The account of one call. Cycles and seconds are the emulated device's.
struct Report {
  std::vector<IpuMemory> ipus;
  int64_t cycles_per_run = 0;
  double seconds_per_run = 0;
  std::vector<std::string> generic_ops;  // aten ops without a kernel of their own
};

// What a call ends with that interrupt() has stopped.
class Interrupted : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A wrapped module, whatever its class. Not thread-safe, but for interrupt().
class Executor {
 public:
  using Tensors = std::vector<torch::Tensor>;
  using Forward = std::function<Tensors(const Tensors&)>;

  // `module` lives as long as this. A training model needs an optimiser: SGD, Adam or AdamW.
  Executor(std::shared_ptr<torch::nn::Module> module, const Options& options,
           const torch::optim::Optimizer* optimizer);
  ~Executor();
  Executor(Executor&&) noexcept;

  // One call. The first one traces `forward` and compiles; later ones want the same shapes. Rows of
  // the inputs: micro-batch times gradientAccumulation times deviceIterations.
  Tensors run(const Tensors& inputs, const Forward& forward);
  // Ends the call under way, if there is one, within half a second: it throws Interrupted. From any
  // thread, or the handler of a signal. Of the step at hand, some weights may then be updated on
  // the device and some not; copyWeightsToDevice() puts the module's there.
  void interrupt() noexcept;
  bool isCompiled() const;

  // After training the module's own tensors are stale until they are copied; a changed module has
  // no effect on the device until it is copied there.
  void copyWeightsToHost();
  void copyWeightsToDevice();
  // New values of the learning rate and of what differed from torch's default at compilation.
  void setOptimizer(const torch::optim::Optimizer& optimizer);

  // The text of a form: "traced", "normal", "differentiated", "placed" or "program".
  std::string graph(const std::string& form) const;
  Report report() const;

 private:
  Tensors call(const Tensors& inputs, const Forward& forward);

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
    return call({inputs...}, std::make_index_sequence<sizeof...(Inputs)>());
  }

 private:
  template <size_t... I>
  Tensors call(const Tensors& inputs, std::index_sequence<I...>) {
    return run(inputs, [this](const Tensors& traced) {
      Tensors flat;
      detail::flatten(module_->forward(traced[I]...), flat);
      return flat;
    });
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
