// Runs executables that PopTorch has exported, without torch and without Python. Load a file, look
// at its inputs and outputs, and run it on plain buffers.
//
//   poptorch::runtime::Model model("digits.poptorch");
//   std::vector<float> scores(model.outputs()[0].elements());
//   model.run({images.data()}, {scores.data()});
//
// CMake: find_package(poptorch REQUIRED COMPONENTS runtime); link poptorch::runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace poptorch::runtime {

// An error whose text says what is wrong, and what to do.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An input or output of one call: dense, row-major, with the batching factors (replicas, gradient
// accumulation, device iterations) in the first dimension.
struct Tensor {
  std::string name;   // of the argument; outputs are output0, output1 ...
  std::string dtype;  // "f32", "f16", "i32", "bool" ...
  std::vector<int64_t> shape;
  size_t bytes = 0;

  size_t elements() const;
};

class Model {
 public:
  // Loads an executable. `threads` is the number of emulator threads; 0 means POPTORCH_NUM_THREADS,
  // or else one for each core. Throws Error for a file that is damaged, or is not an executable of
  // this version. A model for training comes with the optimiser's state.
  explicit Model(const std::string& path, int threads = 0);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const std::vector<Tensor>& inputs() const;
  const std::vector<Tensor>& outputs() const;
  // Runs the model once, with a buffer of Tensor::bytes for each input and each output. Throws
  // Error for another number of buffers, and if the run fails. Calls from several threads run one
  // at a time.
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs);

  // Access weights, buffers and the optimiser's state, by the names of their slots.
  const std::vector<Tensor>& state() const;
  void readState(const std::string& name, void* data) const;
  void writeState(const std::string& name, const void* data);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poptorch::runtime
