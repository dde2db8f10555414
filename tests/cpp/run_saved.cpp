// run_saved <executable> <inputs> <outputs>: one call on tensors by number, in files of torch.save;
// writes what came out by number and the state by slot.
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <poptorch/saved.hpp>
#include <string>

#include "tensor_files.hpp"

int main(int, char** arguments) {
  try {
    poptorch::SavedModel model(arguments[1]);
    std::vector<torch::Tensor> inputs;
    const NamedTensors given = load_tensors(arguments[2]);
    for (size_t i = 0; i < given.size(); ++i) inputs.push_back(given.at(std::to_string(i)));
    NamedTensors results;
    for (const torch::Tensor& output : model.run(inputs)) {
      results.emplace(std::to_string(results.size()), output);
    }
    for (const std::string& slot : model.stateNames()) results[slot] = model.readState(slot);
    save_tensors(arguments[3], results);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
