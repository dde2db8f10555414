// Trace, compile and run a model on torch tensors: what the Python module and the C++ API share.
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
  // Of what was traced, as it was traced.
  TorchExecutable(std::unique_ptr<session::Executable> executable, const TraceResult& traced);

  const std::vector<TraceOutput>& outputs() const { return outputs_; }
  // Numbers of the inputs that forward writes.
  const std::vector<size_t>& written_inputs() const { return written_inputs_; }
  const session::Executable& compiled() const { return *executable_; }
  session::Executable& compiled() { return *executable_; }

  // Of the model, for profilers.
  void set_name(const std::string& name) { run_name_ = "poptorch::run " + name; }

  // One step. Inputs of the device's dtype that are dense are read in place; those that forward
  // writes hold what it wrote afterwards. UserError for another number, shape or dtype than
  // compiled.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);

  // The model's own tensors, from and to their slots; those that the model has let go of are left
  // out. Empty `names`: all of them.
  // Weights of which each process has a part come from all of them, and with these the buffers of
  // the first process: all must call it then. Otherwise it is local.
  void weights_to_host() const;
  void weights_to_device(const std::vector<std::string>& names = {});
  at::Tensor read_state(const std::string& name) const;   // 0 for groups without a replica here
  at::Tensor fetch_state(const std::string& name) const;  // with those, which all must call then
  void write_state(const std::string& name, const at::Tensor& value);

 private:
  // Weak: a tensor's Python object leads to the wrapper that owns this, and a strong reference from
  // here would hide that cycle from Python's collector.
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
  std::vector<size_t> written_inputs_;  // which outputs stand behind the model's own
  std::vector<ModelTensor> state_;
};

// Traces `forward`, compiles the graph and uploads the weights. `execution.training` decides
// whether gradients are taken; parameters that require none are left out of the optimiser's groups.
// broadcast_buffers: UserError where replicas would each write a parameter or buffer of their own.
std::unique_ptr<TorchExecutable> compile_model(const TraceRequest& request, const Forward& forward,
                                               ir::Execution execution,
                                               const compile::HostOptions& options = {},
                                               const compile::Progress& progress = {},
                                               bool broadcast_buffers = false);

// Traces `forward`; what its modules cost. Tensors need no values: meta tensors will do.
account::Profile profile_model(const TraceRequest& request, const Forward& forward,
                               ir::Execution execution);

}  // namespace poptorch::frontend
