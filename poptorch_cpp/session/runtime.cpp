#include "include/poptorch/runtime.hpp"

#include <numeric>
#include <utility>

#include "ops/all_ops.hpp"
#include "session/executable_file.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::runtime {
namespace {

// Calls `work` and turns the core's exceptions into those that the header declares.
template <typename Work>
auto explained(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const support::Error& error) {
    throw Error(error.what());
  }
}

Tensor described(std::string name, const ir::Type& type) {
  return {std::move(name), std::string(ir::name(type.dtype)), type.shape,
          static_cast<size_t>(type.bytes())};
}

std::vector<Tensor> described(const std::vector<std::string>& names,
                              const std::vector<ir::Type>& types) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < types.size(); ++i) tensors.push_back(described(names[i], types[i]));
  return tensors;
}

void check_count(const char* what, size_t wanted, size_t given) {
  if (wanted == given) return;
  throw Error(support::str("[run] the model has ", wanted, " ", what, ", but ", given,
                           " buffers were given. Give one for each."));
}

}  // namespace

size_t Tensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, [](size_t count, int64_t size) {
    return count * static_cast<size_t>(size);
  });
}

struct Model::State {
  session::Loaded loaded;
  std::vector<Tensor> inputs = {}, outputs = {}, slots = {};

  explicit State(session::Loaded moved) : loaded(std::move(moved)) {
    const session::Executable& executable = *loaded.executable;
    const auto& types = executable.input_types();
    const auto& names = loaded.input_names;
    inputs = described(names.size() == types.size() ? names : executable.input_names(), types);
    outputs = described(executable.output_names(), executable.output_types());
    for (const ir::StateSlot& slot : executable.states()) {
      slots.push_back(described(slot.name.text(), executable.state_type(slot)));
    }
  }
};

Model::Model(const std::string& path, int threads) {
  explained([&] {
    compile::HostOptions options;
    options.threads = threads;
    state_ = std::make_unique<State>(session::load_file(path, ops::registry(), options));
  });
}

Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const std::vector<Tensor>& Model::inputs() const { return state_->inputs; }
const std::vector<Tensor>& Model::outputs() const { return state_->outputs; }
const std::vector<Tensor>& Model::state() const { return state_->slots; }

void Model::run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  check_count("inputs", state_->inputs.size(), inputs.size());
  check_count("outputs", state_->outputs.size(), outputs.size());
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (const void* data : inputs) from.push_back(static_cast<const std::byte*>(data));
  for (void* data : outputs) to.push_back(static_cast<std::byte*>(data));
  explained([&] { state_->loaded.executable->run(from, to); });
}

void Model::readState(const std::string& name, void* data) const {
  explained([&] { state_->loaded.executable->read_state(name, static_cast<std::byte*>(data)); });
}

void Model::writeState(const std::string& name, const void* data) {
  explained(
      [&] { state_->loaded.executable->write_state(name, static_cast<const std::byte*>(data)); });
}

}  // namespace poptorch::runtime
