// The C++ API of include/poptorch/poptorch.hpp.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <atomic>

#include "frontends/torch/compile.hpp"
#include "frontends/torch/libtorch/blocks.hpp"
#include "frontends/torch/libtorch/optimiser.hpp"
#include "frontends/torch/tracer/tracer.hpp"
#include "poptorch/poptorch.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch {

using support::str;
using support::UserError;

namespace {

int64_t positive(const char* option, int64_t count) {
  if (count >= 1) return count;
  throw UserError(str("[options] ", option, " must be at least 1, not ", count, "."));
}

}  // namespace

Options& Options::deviceIterations(int64_t count) {
  device_iterations_ = positive("deviceIterations", count);
  return *this;
}

Options& Options::gradientAccumulation(int64_t count) {
  gradient_accumulation_ = positive("gradientAccumulation", count);
  return *this;
}

Options& Options::outputMode(OutputMode mode, int64_t period) {
  output_mode_ = mode;
  output_period_ = positive("the period of outputMode", period);
  return *this;
}

Options& Options::randomSeed(uint64_t seed) {
  random_seed_ = seed;
  return *this;
}

Options& Options::executionStrategy(ExecutionStrategy strategy) {
  strategy_ = strategy;
  return *this;
}

Options& Options::autoRoundNumIPUs(bool round) {
  round_ipu_count_ = round;
  return *this;
}

struct Executor::State {
  std::shared_ptr<torch::nn::Module> module;
  ir::Execution execution;
  session::HostOptions options;
  std::unique_ptr<frontend::TorchExecutable> executable;
  std::atomic<bool> stop{false};

  const frontend::TorchExecutable& compiled() const {
    if (executable) return *executable;
    throw UserError("[run] the model is not compiled yet. Call it once first.");
  }
};

namespace {

ir::OutputMode output_mode(OutputMode mode, bool training) {
  switch (mode) {
    case OutputMode::Default:
      return training ? ir::OutputMode::kFinal : ir::OutputMode::kAll;
    case OutputMode::Final:
      return ir::OutputMode::kFinal;
    case OutputMode::EveryN:
      return ir::OutputMode::kEveryN;
    case OutputMode::All:
      return ir::OutputMode::kAll;
    default:
      return ir::OutputMode::kSum;
  }
}

std::vector<frontend::NamedTensor> state_of(const torch::nn::Module& module) {
  std::vector<frontend::NamedTensor> state;
  for (const auto& item : module.named_parameters()) {
    state.push_back({item.key(), item.value(), false});
  }
  for (const auto& item : module.named_buffers()) state.push_back({item.key(), item.value(), true});
  return state;
}

// The first rows: one micro-batch.
at::Tensor micro_batch(const at::Tensor& input, int64_t steps, size_t index) {
  if (steps == 1) return input;
  if (input.dim() == 0 || input.size(0) % steps != 0) {
    throw UserError(str("[run] dimension 0 of input ", index, " has ",
                        input.dim() == 0 ? 1 : input.size(0), " rows, which is not a multiple of ",
                        steps, " = deviceIterations * gradientAccumulation. Pass that many."));
  }
  return input.narrow(0, 0, input.size(0) / steps);
}

}  // namespace

Executor::Executor(std::shared_ptr<torch::nn::Module> module, const Options& options,
                   const torch::optim::Optimizer* optimizer)
    : state_(std::make_unique<State>()) {
  const bool training = optimizer != nullptr;
  state_->module = std::move(module);
  state_->options.round_ipu_count = options.round_ipu_count_;
  ir::Execution& execution = state_->execution;
  execution.training = training;
  if (options.strategy_ == ExecutionStrategy::Sharded) execution.strategy = "sharded";
  execution.device_iterations = options.device_iterations_;
  execution.gradient_accumulation = options.gradient_accumulation_;
  execution.output_mode = output_mode(options.output_mode_, training);
  execution.output_period = options.output_period_;
  execution.random_seed = options.random_seed_;
  if (!training && options.gradient_accumulation_ != 1) {
    throw UserError(
        "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its "
        "default value (1) when running a poptorch.inferenceModel().");
  }
  if (training)
    state_->execution.optimiser = frontend::describe(*optimizer, state_of(*state_->module));
}

Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;

void Executor::interrupt() noexcept { state_->stop = true; }

Executor::Tensors Executor::run(const Tensors& inputs, const Forward& forward) {
  state_->stop = false;
  const support::Watch watch([&stop = state_->stop] { return stop.load(); });
  try {
    return call(inputs, forward);
  } catch (const support::Interrupted&) {
    throw Interrupted("[run] interrupt() was called.");
  }
}

Executor::Tensors Executor::call(const Tensors& inputs, const Forward& forward) {
  if (!state_->executable) {
    const ir::Execution& execution = state_->execution;
    frontend::TraceRequest request;
    request.state = state_of(*state_->module);
    request.training = execution.training;
    request.without_python = true;
    const frontend::BegunBlocks begun(*state_->module, request.state);
    request.begins = begun.by_slot();
    const int64_t steps = execution.device_iterations * execution.gradient_accumulation;
    for (size_t i = 0; i < inputs.size(); ++i) {
      request.inputs.push_back(micro_batch(inputs[i], steps, i));
    }
    const auto checked_forward = [&](const Tensors& stand_ins) {
      Tensors results = forward(stand_ins);
      begun.check(frontend::Tracer::current()->module().main());
      return results;
    };
    state_->executable =
        frontend::compile_model(request, checked_forward, execution, state_->options);
  }
  const Tensors from_device = state_->executable->run(inputs);
  Tensors results;
  for (const auto& output : state_->executable->outputs()) {
    results.push_back(output.index >= 0 ? from_device.at(output.index) : output.host);
  }
  return results;
}

bool Executor::isCompiled() const { return state_->executable != nullptr; }

void Executor::copyWeightsToHost() { state_->compiled().weights_to_host(); }

void Executor::copyWeightsToDevice() {
  state_->compiled();
  state_->executable->weights_to_device();
}

void Executor::setOptimizer(const torch::optim::Optimizer& optimizer) {
  auto wanted = frontend::describe(optimizer, state_of(*state_->module));
  if (!state_->execution.optimiser) throw UserError("[optimiser] this is an inference model.");
  if (!state_->executable) {
    state_->execution.optimiser = std::move(wanted);
    return;
  }
  for (const auto& [slot, value] : frontend::changes(*state_->execution.optimiser, wanted)) {
    state_->executable->write_state(slot, at::full({}, value, at::kDouble));
  }
}

std::string Executor::graph(const std::string& form) const {
  return state_->compiled().compiled().text(form);
}

Report Executor::report() const {
  const session::Report report = state_->compiled().compiled().report();
  Report result;
  result.cycles_per_run = report.cycles_per_run;
  result.seconds_per_run = report.seconds_per_run;
  result.generic_ops = report.generic_ops;
  for (const auto& memory : report.ipus) {
    result.ipus.push_back(
        {memory.state_bytes, memory.arena_bytes, memory.code_bytes, memory.capacity_bytes});
  }
  return result;
}

}  // namespace poptorch
