// Runs executables exported by Python or by Executor::save, on LibTorch's tensors. Neither a module
// nor a compilation is needed.
//
//   poptorch::SavedModel model("net.poptorch");
//   auto scores = model(images)[0];
#pragma once

#include <torch/types.h>

#include <concepts>
#include <memory>
#include <string>
#include <vector>

namespace poptorch {

class SavedModel {
 public:
  // Loads the file. Throws an exception derived from std::runtime_error that says what is wrong
  // with it.
  explicit SavedModel(const std::string& path);
  ~SavedModel();
  SavedModel(SavedModel&&) noexcept;

  // Runs the model once, as a call of the exported wrapper. Returns what its forward returned,
  // flat; then what forward wrote into its inputs, then the anchored values.
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs);
  template <std::convertible_to<torch::Tensor>... Inputs>
  std::vector<torch::Tensor> operator()(const Inputs&... inputs) {
    return run({inputs...});
  }

  // Read and write state by slot: parameters and buffers have their path, the optimiser's state
  // names like optimiser.exp_avg.<path>.
  std::vector<std::string> stateNames() const;
  torch::Tensor readState(const std::string& slot) const;
  void writeState(const std::string& slot, const torch::Tensor& value);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poptorch
