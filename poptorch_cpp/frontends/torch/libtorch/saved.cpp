// Saves an Executor to a file, and runs saved models.
#include "poptorch/saved.hpp"

#include "frontends/torch/libtorch/executor_state.hpp"
#include "frontends/torch/saved.hpp"
#include "ops/all_ops.hpp"
#include "session/executable_file.hpp"

namespace poptorch {

struct SavedModel::State {
  explicit State(const std::string& path) : executable(frontend::load_outputs(path)) {}

  std::unique_ptr<frontend::TorchExecutable> executable;
};

SavedModel::SavedModel(const std::string& path) : state_(std::make_unique<State>(path)) {}
SavedModel::~SavedModel() = default;
SavedModel::SavedModel(SavedModel&&) noexcept = default;

std::vector<torch::Tensor> SavedModel::run(const std::vector<torch::Tensor>& inputs) {
  return state_->executable->run(inputs);
}

std::vector<std::string> SavedModel::stateNames() const {
  std::vector<std::string> names;
  for (const auto& slot : state_->executable->compiled().states()) {
    names.push_back(slot.name.text());
  }
  return names;
}

torch::Tensor SavedModel::readState(const std::string& slot) const {
  return state_->executable->read_state(slot);
}

void SavedModel::writeState(const std::string& slot, const torch::Tensor& value) {
  state_->executable->write_state(slot, value);
}

void Executor::save(const std::string& path) const {
  session::save(state_->compiled().compiled(), path);
}

}  // namespace poptorch
