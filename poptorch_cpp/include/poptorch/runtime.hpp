// Run executables that PopTorch has exported, without torch and without Python: load a file, look
// at its inputs and outputs, run it on plain buffers.
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

// Says what is wrong, and what to do.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What one call takes or gives: dense, row-major, with the batching factors (replicas, gradient
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
  // `threads`: of the emulator; 0: POPTORCH_NUM_THREADS, else as many as there are cores. Error for
  // what is no executable of this version, or is damaged. Of a model for training the optimiser's
  // state comes with it.
  explicit Model(const std::string& path, int threads = 0);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const std::vector<Tensor>& inputs() const;
  const std::vector<Tensor>& outputs() const;
  // One call: a buffer for each input and each output, of Tensor::bytes. Error where their number
  // is another, and where the run fails. Calls from several threads take turns.
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs);

  // Weights, buffers and the optimiser's state, by the names of their slots.
  const std::vector<Tensor>& state() const;
  void readState(const std::string& name, void* data) const;
  void writeState(const std::string& name, const void* data);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poptorch::runtime
