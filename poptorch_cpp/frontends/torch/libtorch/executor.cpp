// Calls of the Executor in poptorch/poptorch.hpp: compile, run, weights, optimiser.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "frontends/torch/libtorch/blocks.hpp"
#include "frontends/torch/libtorch/executor_state.hpp"
#include "frontends/torch/libtorch/optimiser.hpp"
#include "frontends/torch/libtorch/telling.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "support/faults.hpp"
#include "support/watch.hpp"

namespace poptorch {

using support::UserError;

namespace {

// Returns the first rows of the input, one micro-batch.
at::Tensor micro_batch(const at::Tensor& input, const ir::Execution& execution, size_t index) {
  const int64_t factor = execution.input_factor();
  if (factor == 1) return input;
  const int64_t rows = input.dim() == 0 ? 1 : input.size(0);
  const std::string defect = ir::batch_defect(execution, std::to_string(index), rows);
  if (defect.empty()) return input.narrow(0, 0, rows / factor);
  throw UserError("[run] " + defect);
}

// Calls `work`; a device failure is rethrown as one of the public classes.
template <typename Work>
auto on_device(Work work) {
  try {
    return work();
  } catch (const support::DeviceError& error) {
    if (!error.is_recoverable()) throw UnrecoverableError(error.what());
    throw RecoverableError(error.what(), error.recovery_action());
  }
}

}  // namespace

std::vector<frontend::NamedTensor> Executor::State::tensors() const {
  std::vector<frontend::NamedTensor> state;
  for (const auto& item : module->named_parameters()) {
    state.push_back({item.key(), item.value(), false});
  }
  for (const auto& item : module->named_buffers()) {
    state.push_back({item.key(), item.value(), true});
  }
  return state;
}

ir::OptimiserSpec Executor::State::described(const torch::optim::Optimizer& optimizer) const {
  return said.with_options(frontend::describe(optimizer, tensors()));
}

Executor::Executor(std::shared_ptr<torch::nn::Module> module, const Options& options,
                   const torch::optim::Optimizer* optimizer)
    : state_(std::make_unique<State>(std::move(module), options, optimizer != nullptr)) {
  if (optimizer) state_->optimiser = state_->described(*optimizer);
}

Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;

void Executor::interrupt() noexcept { state_->stop = true; }

void Executor::watched(const std::function<void()>& work) {
  state_->stop = false;
  const support::Watch watch([&stop = state_->stop] { return stop.load(); });
  try {
    on_device(work);
  } catch (const support::Interrupted&) {
    throw Interrupted("[run] interrupt() was called.");
  }
}

Executor::Tensors Executor::run(const Tensors& inputs, const Forward& forward) {
  Tensors results;
  watched([&] { results = call(inputs, forward); });
  return results;
}

void Executor::compile(const Tensors& inputs, const Forward& forward) {
  if (!state_->executable) watched([&] { make_executable(inputs, forward); });
}

std::unique_ptr<frontend::TorchExecutable> Executor::State::compiled_for(
    std::vector<at::Tensor> inputs, const Forward& forward, const compile::HostOptions& host) {
  ir::Execution execution = said.execution;
  execution.optimiser = optimiser;
  telling::options(execution);
  frontend::TraceRequest request;
  request.state = tensors();
  request.training = execution.training;
  request.without_python = true;
  request.inputs = std::move(inputs);
  const int64_t replicas = execution.replication_factor;
  execution.replica_groups = groupings.groups(request.state, replicas);
  frontend::BegunBlocks begun(*module, request.state);
  request.before_use = [&](const std::string& slot) { begun.use(slot); };
  const frontend::OnePart part(request.state, execution.replica_groups, replicas);
  for (const auto& entry : request.state) {
    if (entry.host.defined()) holders.push_back(entry.host);
  }
  const auto checked_forward = [&](const Tensors& stand_ins) {
    const frontend::BlockRecorder recorder(said.strategy);
    Tensors results = forward(stand_ins);
    begun.check(frontend::Tracer::current()->module().main());
    return results;
  };
  auto made = frontend::compile_model(request, checked_forward, execution, host, {},
                                      said.broadcast_buffers);
  check_anchors(*made);
  return made;
}

void Executor::make_executable(const Tensors& inputs, const Forward& forward) {
  Tensors rows;
  for (size_t i = 0; i < inputs.size(); ++i) {
    rows.push_back(micro_batch(inputs[i], state_->said.execution, i));
  }
  auto made = state_->compiled_for(std::move(rows), forward, state_->said.host);
  made->compiled().attach();
  telling::weights_to_device();
  state_->executable = std::move(made);
}

Executor::Tensors Executor::call(const Tensors& inputs, const Forward& forward) {
  if (!state_->executable) make_executable(inputs, forward);
  const Tensors from_device = state_->executable->run(inputs);
  const auto anchored =
      static_cast<std::ptrdiff_t>(state_->compiled().compiled().anchored().size());
  state_->anchored.assign(from_device.end() - anchored, from_device.end());
  Tensors results;
  for (const auto& output : state_->executable->outputs()) {
    results.push_back(output.index >= 0 ? from_device.at(output.index) : output.host);
  }
  return results;
}

bool Executor::isCompiled() const { return state_->executable != nullptr; }

void Executor::copyWeightsToHost() {
  frontend::TorchExecutable& executable = state_->compiled();
  telling::weights_to_host();
  on_device([&] { executable.weights_to_host(); });
}

void Executor::copyWeightsToDevice() {
  frontend::TorchExecutable& executable = state_->compiled();
  telling::weights_to_device();
  on_device([&] { executable.weights_to_device(); });
}

void Executor::copyNamedBuffersToDevice() {
  const auto& names = state_->said.updatable_buffers;
  if (!names.empty()) {
    frontend::TorchExecutable& executable = state_->compiled();
    telling::named_buffers_to_device();
    return on_device([&] { executable.weights_to_device(names); });
  }
  throw UserError("[run] Options::updatableNamedBuffers names no buffers. Name them there.");
}

void Executor::replicaGrouping(const torch::Tensor& parameter, CommGroupType type, int64_t shards,
                               VariableRetrievalMode mode) {
  if (isCompiled()) {
    throw UserError(
        "[replicas] replicaGrouping was called after the model was compiled. Call it before the "
        "first run.");
  }
  state_->groupings.request({parameter, type, shards, mode});
}

void Executor::setOptimizer(const torch::optim::Optimizer& optimizer) {
  if (!state_->optimiser) throw UserError("[optimiser] this is an inference model.");
  const ir::OptimiserSpec wanted = state_->described(optimizer);
  if (state_->executable) {
    frontend::TorchExecutable& executable = *state_->executable;
    const auto held = stateNames();
    const auto is_held = [&](const std::string& slot) {  // unused numbers lack a slot
      return std::find(held.begin(), held.end(), slot) != held.end();
    };
    for (const auto& [slot, value] : frontend::changes(*state_->optimiser, wanted)) {
      if (is_held(slot)) executable.write_state(slot, at::full({}, value, at::kDouble));
    }
    for (const auto& [slot, factor] : frontend::rescaled(*state_->optimiser, wanted)) {
      if (!is_held(slot)) continue;
      on_device([&] { executable.write_state(slot, executable.read_state(slot) * factor); });
    }
  }
  state_->optimiser = wanted;
}

std::vector<std::string> Executor::stateNames() const {
  std::vector<std::string> names;
  for (const ir::StateSlot& slot : state_->compiled().compiled().states()) {
    names.push_back(slot.name.text());
  }
  return names;
}

torch::Tensor Executor::readState(const std::string& slot) const {
  return on_device([&] { return state_->compiled().read_state(slot); });
}

void Executor::writeState(const std::string& slot, const torch::Tensor& value) {
  on_device([&] { state_->compiled().write_state(slot, value); });
}

std::pair<uint64_t, uint64_t> Executor::rngState() const {
  const frontend::TorchExecutable& executable = state_->compiled();
  telling::reading_random_state();
  return executable.compiled().random_state();
}

void Executor::setRngState(std::pair<uint64_t, uint64_t> state) {
  frontend::TorchExecutable& executable = state_->compiled();
  telling::setting_random_state(state.first);
  executable.compiled().set_random_state(state);
}

}  // namespace poptorch
