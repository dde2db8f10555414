// Traces, compiles and runs a model on torch tensors. The Python module and the C++ API share this
// code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "account/profile.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "session/session.hpp"

namespace poptorch::frontend {

class TorchExecutable {
 public:
  // Takes the outputs, the written inputs and the state, unchanged, from the trace that was
  // compiled.
  TorchExecutable(std::unique_ptr<session::Executable> executable, const TraceResult& traced);

  const std::vector<TraceOutput>& outputs() const { return outputs_; }
  // Returns the numbers of the inputs that forward writes.
  const std::vector<size_t>& written_inputs() const { return written_inputs_; }
  const session::Executable& compiled() const { return *executable_; }
  session::Executable& compiled() { return *executable_; }

  // Sets the model's name, which profilers show.
  void set_name(const std::string& name) { run_name_ = "poptorch::run " + name; }

  // Runs one step. Reads dense inputs of the device's dtype in place. Afterwards, the inputs that
  // forward writes hold their new values. Throws UserError if the inputs differ from the compiled
  // ones in number, shape or dtype, or if a written input overlaps another input or itself.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);

  // Copy the model's own tensors from and to their slots, except tensors that the model has
  // released. Empty `names`: all of them. If each process has a part of a weight, weights_to_host()
  // collects the parts from all processes, and with them the buffers of the first process. All
  // processes must call it then; otherwise the call is local.
  void weights_to_host() const;
  void weights_to_device(const std::vector<std::string>& names = {});
  at::Tensor read_state(const std::string& name) const;   // 0 for groups without a replica here
  at::Tensor fetch_state(const std::string& name) const;  // includes those: all must call it then
  void write_state(const std::string& name, const at::Tensor& value);

 private:
  // The tensor is weak because its Python object refers to the wrapper that owns this. A strong
  // reference would hide that cycle from Python's garbage collector.
  struct ModelTensor {
    std::string name;
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
  };
  const ir::StateSlot& slot(const std::string& name) const;
  void exchange(const std::string& name, const std::vector<int>& owners, std::byte* data) const;

  void check_written(const std::vector<at::Tensor>& inputs) const;
  void write_inputs(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& results) const;

  std::unique_ptr<session::Executable> executable_;
  std::string run_name_ = "poptorch::run";
  std::vector<TraceOutput> outputs_;
  std::vector<size_t> written_inputs_;  // their outputs follow the model's own
  std::vector<ModelTensor> state_;
};

// Traces `forward` for a program with the options of `execution`.
TraceResult trace_for(const ir::Execution& execution, const TraceRequest& request,
                      const Forward& forward);

// Traces `forward`, compiles the graph and, unless options.offline is set, uploads the weights.
// `execution.training` determines whether gradients are computed. The optimiser's groups omit
// parameters that require none. If `broadcast_buffers` is set, throws UserError if replicas would
// each write a separate parameter or buffer.
std::unique_ptr<TorchExecutable> compile_model(const TraceRequest& request, const Forward& forward,
                                               ir::Execution execution,
                                               const compile::HostOptions& options = {},
                                               const compile::Progress& progress = {},
                                               bool broadcast_buffers = false);

// Traces `forward` and returns the costs of its modules. Inputs and state may be meta tensors,
// because their values are not read.
account::Profile profile_model(const TraceRequest& request, const Forward& forward,
                               ir::Execution execution);

}  // namespace poptorch::frontend
