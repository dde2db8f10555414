// Executables that were exported, by Python or by Executor::save, on LibTorch's tensors. Neither a
// module nor a compilation is needed.
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
  // What is wrong with the file is the text of an exception derived from std::runtime_error.
  explicit SavedModel(const std::string& path);
  ~SavedModel();
  SavedModel(SavedModel&&) noexcept;

  // One call, as of the wrapper that was exported: what its forward returned, flat; behind it what
  // forward wrote into its inputs, then what was anchored.
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs);
  template <std::convertible_to<torch::Tensor>... Inputs>
  std::vector<torch::Tensor> operator()(const Inputs&... inputs) {
    return run({inputs...});
  }

  // State by slot: parameters and buffers by path, the optimiser's as optimiser.exp_avg.<path>.
  std::vector<std::string> stateNames() const;
  torch::Tensor readState(const std::string& slot) const;
  void writeState(const std::string& slot, const torch::Tensor& value);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poptorch
