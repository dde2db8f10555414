#include "frontends/torch/compile.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "frontends/torch/aten/call.hpp"
#include "frontends/torch/aten_provider.hpp"
#include "frontends/torch/plain_tensor.hpp"
#include "frontends/torch/profiler.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/effects.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "ir/text.hpp"
#include "session/profile.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/moved_bytes.hpp"
#include "support/regions.hpp"
#include "support/strings.hpp"
#include "support/whole_file.hpp"

namespace poptorch::frontend {
namespace {

using support::str;
using support::UserError;

std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

at::Tensor empty_of(const ir::Type& type, const std::string& what) {
  try {
    return at::empty(type.shape, at::TensorOptions().dtype(torch_dtype(type.dtype)));
  } catch (const c10::Error&) {  // torch has no specific type for lack of memory
    throw UserError(str(
        "[memory] the host does not have the memory that ", what, ", ", type,
        ", needs. Return fewer or smaller outputs, or those of fewer micro-batches (outputMode)."));
  }
}

// Throws UserError unless `tensor` has values on the host, in its own memory.
void check_host(const at::Tensor& tensor, const std::string& what) {
  const NotPlain found = why_not_plain(tensor);
  if (found.problem.empty()) return;
  throw UserError(str("[run] ", what, " ", found.problem,
                      ", but a wrapped model takes plain tensors of the host. Pass ", found.cure,
                      found.cure.starts_with(".") ? " of it." : "."));
}

// Returns whether a value of `type` can be written directly into the tensor's memory.
bool is_laid_out_as(const at::Tensor& tensor, const ir::Type& type) {
  return tensor.is_contiguous() && tensor.scalar_type() == torch_dtype(type.dtype) &&
         tensor.sizes() == at::IntArrayRef(type.shape);
}

// Returns `tensor` as the device requires it: dense, in dtype `type.dtype`. Throws UserError if its
// dtype or shape does not fit.
at::Tensor as_device(const at::Tensor& tensor, const ir::Type& type, const std::string& what) {
  check_host(tensor, what);
  const ir::DType given = ir_dtype(tensor.scalar_type());
  if (given != type.dtype && narrow(given) != type.dtype) {
    throw UserError(str("[run] Data type mismatch for ", what, ": expected ", type.dtype,
                        " but got ", given, ". Cast it, or make a new wrapper."));
  }
  if (tensor.sizes() != at::IntArrayRef(type.shape)) {
    throw UserError(str("[run] Shape mismatch for ", what, ": expected ",
                        ir::shape_text(type.shape), " but got ",
                        ir::shape_text(tensor.sizes().vec()), ". Make a new wrapper for it."));
  }
  return given == type.dtype ? plain(tensor) : narrowed(tensor, what);
}

const at::Tensor& held(const NamedTensor& state) {
  return state.host.defined() ? state.host : state.tensor;
}

// Returns whether two elements may share one place, as those of expand() do.
bool overlaps_itself(const at::Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1) steps.emplace_back(tensor.stride(i), tensor.size(i));
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

// Removes parameters that do not require gradients from the optimiser's groups.
void drop_frozen(ir::OptimiserSpec& optimiser, const std::vector<NamedTensor>& state) {
  std::unordered_set<std::string> trained;
  for (const NamedTensor& entry : state) {
    if (entry.tensor.requires_grad()) trained.insert(entry.name);
  }
  for (auto& group : optimiser.groups) {
    std::erase_if(group.parameters, [&](const auto& name) { return !trained.contains(name); });
  }
}

}  // namespace

TorchExecutable::TorchExecutable(std::unique_ptr<session::Executable> executable,
                                 const TraceResult& traced)
    : executable_(std::move(executable)),
      outputs_(traced.outputs),
      written_inputs_(traced.written_inputs) {
  for (const NamedTensor& entry : traced.state) {
    state_.push_back({entry.name, decltype(ModelTensor::tensor)(held(entry).getIntrusivePtr())});
  }
}

void TorchExecutable::check_written(const std::vector<at::Tensor>& inputs) const {
  for (const size_t written : written_inputs_) {
    if (overlaps_itself(inputs[written])) {
      throw UserError(str("[run] forward writes input ", written, ", in which several elements ",
                          "share memory. Pass a clone() of it."));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i == written || !inputs[i].is_alias_of(inputs[written])) continue;
      throw UserError(str("[run] forward writes input ", written,
                          ", which shares memory with input ", i, ". Pass a clone() of it."));
    }
  }
}

std::vector<at::Tensor> TorchExecutable::run(const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_grad;
  const support::Region run_of_model(run_name_);
  const auto& types = executable_->input_types();
  if (inputs.size() != types.size()) {
    throw UserError(str("[run] the model was compiled for ", types.size(), " tensors but got ",
                        inputs.size(), ". Make a new wrapper for another call."));
  }
  check_written(inputs);
  std::vector<at::Tensor> held, results;
  std::vector<const std::byte*> input_data;
  std::vector<std::byte*> output_data;
  {
    const support::Region copying("poptorch::copy_to_device");
    for (size_t i = 0; i < inputs.size(); ++i) {
      held.push_back(as_device(inputs[i], types[i], str("input ", i)));
      input_data.push_back(static_cast<const std::byte*>(held.back().const_data_ptr()));
    }
    for (const ir::Type& type : executable_->output_types()) {
      results.push_back(empty_of(type, str("output ", results.size())));
      output_data.push_back(bytes_of(results.back()));
    }
  }
  {
    const support::Region running("poptorch::execute");
    executable_->run(input_data, output_data);
  }
  const support::Region copying("poptorch::copy_to_host");
  if (!written_inputs_.empty()) write_inputs(inputs, results);
  return results;
}

void TorchExecutable::write_inputs(const std::vector<at::Tensor>& inputs,
                                   std::vector<at::Tensor>& results) const {
  const auto first = std::count_if(outputs_.begin(), outputs_.end(),
                                   [](const TraceOutput& output) { return output.index >= 0; });
  const auto begin = results.begin() + first;
  for (size_t i = 0; i < written_inputs_.size(); ++i) {
    const at::Tensor& input = inputs[written_inputs_[i]];
    input.detach().copy_(begin[static_cast<std::ptrdiff_t>(i)].view(input.sizes()));
  }
  results.erase(begin, begin + static_cast<std::ptrdiff_t>(written_inputs_.size()));
}

void TorchExecutable::weights_to_host() const {
  const at::NoGradGuard no_grad;
  const support::Region copying("poptorch::copyWeightsToHost");
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // to, from; the same if the layout fits
  std::vector<std::pair<std::string, std::byte*>> reads;
  for (const ModelTensor& state : state_) {
    const at::Tensor tensor(state.tensor.lock());
    if (!tensor.defined()) continue;
    const ir::Type type = executable_->state_type(slot(state.name));
    check_host(tensor, state.name);
    copies.emplace_back(tensor.detach(),
                        is_laid_out_as(tensor, type) ? tensor : empty_of(type, state.name));
    reads.emplace_back(state.name, bytes_of(copies.back().second));
  }
  executable_->read_states(reads);
  const bool together = std::any_of(reads.begin(), reads.end(), [&](const auto& read) {
    return !executable_->owners(read.first).empty();
  });
  for (const auto& [name, data] : reads) {
    std::vector<int> owners = executable_->owners(name);
    if (owners.empty() && together && slot(name).kind == "buffer") owners = {0};
    exchange(name, owners, data);
  }
  for (auto& [to, from] : copies) {
    if (to.const_data_ptr() != from.const_data_ptr()) {
      to.copy_(from);
    } else if (!to.is_inference()) {
      to.unsafeGetTensorImpl()->bump_version();
    }
  }
}

void TorchExecutable::weights_to_device(const std::vector<std::string>& names) {
  const at::NoGradGuard no_grad;
  const support::Region copying("poptorch::copyWeightsToDevice");
  std::vector<at::Tensor> held;
  std::vector<std::pair<std::string, const std::byte*>> writes;
  const std::unordered_set<std::string> chosen(names.begin(), names.end());
  for (const ModelTensor& state : state_) {
    const bool wanted = chosen.empty() || chosen.contains(state.name);
    const at::Tensor tensor(state.tensor.lock());
    if (!wanted || !tensor.defined()) continue;
    held.push_back(as_device(tensor, executable_->state_type(slot(state.name)), state.name));
    writes.emplace_back(state.name, static_cast<const std::byte*>(held.back().const_data_ptr()));
  }
  executable_->write_states(writes);
}

const ir::StateSlot& TorchExecutable::slot(const std::string& name) const {
  if (const ir::StateSlot* slot = executable_->find_state(name)) return *slot;
  throw UserError(str("[state] the compiled model has no state '", name, "'."));
}

at::Tensor TorchExecutable::read_state(const std::string& name) const {
  at::Tensor value = empty_of(executable_->state_type(slot(name)), name);
  if (!executable_->remote_groups(name).empty()) value.zero_();
  executable_->read_state(name, bytes_of(value));
  support::note_moved_bytes(static_cast<int64_t>(value.nbytes()));
  return value;
}

at::Tensor TorchExecutable::fetch_state(const std::string& name) const {
  at::Tensor value = read_state(name);
  exchange(name, executable_->owners(name), bytes_of(value));
  return value;
}

// Requires a row of `data` for each of `owners`. Does nothing without owners.
void TorchExecutable::exchange(const std::string& name, const std::vector<int>& owners,
                               std::byte* data) const {
  if (owners.empty()) return;
  executable_->exchange(str("reading '", name, "', which is divided among the processes,"), data,
                        slot(name).type.bytes(), owners);
}

void TorchExecutable::write_state(const std::string& name, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  const ir::StateSlot& target = slot(name);
  const ir::Type type = executable_->state_type(target);
  // A hyper-parameter is a number of the host, whose precision may differ from the slot's.
  const bool number = target.kind == "hyper_parameter";
  const at::Tensor dense =
      number ? value.to(torch_dtype(type.dtype)) : as_device(value, type, name);
  executable_->write_state(name, static_cast<const std::byte*>(dense.const_data_ptr()));
  support::note_moved_bytes(static_cast<int64_t>(dense.nbytes()));
}

// Sets the module's replication factor before forward runs, because collective ops read it.
TraceResult trace_for(const ir::Execution& execution, const TraceRequest& request,
                      const Forward& forward) {
  return trace(request, [&](const std::vector<at::Tensor>& inputs) {
    Tracer::current()->module().execution().replication_factor = execution.replication_factor;
    return forward(inputs);
  });
}

// Logs the module's text, cut to POPTORCH_MAX_GRAPH_LEN characters if that variable is set.
void log_traced(const ir::Module& module) {
  std::string text = ir::print(module, {.locations = true});
  const auto limit = static_cast<size_t>(support::environment_number("POPTORCH_MAX_GRAPH_LEN", 0));
  if (limit > 0 && text.size() > limit) text = text.substr(0, limit) + "... (cut)";
  support::log(support::LogLevel::kTrace, "traced:\n" + text);
}

// Writes the module's text to the file that POPTORCH_EXPORT_PROTO_FILE names, if that is set.
void export_traced(const ir::Module& module) {
  const std::string path = support::environment_text("POPTORCH_EXPORT_PROTO_FILE");
  if (path.empty()) return;
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;  // ignored: WholeFile fails without the folder
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string text = ir::print(module);
  support::WholeFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

void check_unwritten(const ir::Module& module) {
  for (const auto& graph : module.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      for (const int written : op->def().writes) {
        const ir::Value* value = op->operand(static_cast<size_t>(written));
        const std::string* slot = value ? ir::slot_of(ir::memory_root(value)->producer()) : nullptr;
        if (!slot) continue;
        throw UserError(str(
            "PopTorch does not support broadcasting buffers. If your model is able to tolerate "
            "buffers becoming out of sync between replicas, you can disable buffer broadcasting "
            "using poptorch.Options.broadcastBuffers(False). The model writes ",
            *slot, "."));
      }
    }
  }
}

std::unique_ptr<TorchExecutable> compile_model(const TraceRequest& request, const Forward& forward,
                                               ir::Execution execution,
                                               const compile::HostOptions& options,
                                               const compile::Progress& progress,
                                               bool broadcast_buffers) {
  register_aten_provider();
  show_regions_to_profilers();
  const support::Region compiling("poptorch::compile");
  if (progress) progress(0, 100, "tracing");
  TraceResult traced = [&] {
    const support::Region tracing("poptorch::trace");
    return trace_for(execution, request, forward);
  }();
  if (support::log_enabled(support::LogLevel::kTrace)) log_traced(*traced.module);
  export_traced(*traced.module);
  if (broadcast_buffers && execution.replication_factor > 1) check_unwritten(*traced.module);
  if (execution.optimiser) drop_frozen(*execution.optimiser, request.state);
  execution.whole_outputs = static_cast<int64_t>(traced.written_inputs.size());
  if (execution.whole_outputs > 0 && execution.input_group_size > 1) {
    throw support::UnsupportedError(
        str("[inputs] forward writes input ", traced.written_inputs[0],
            " in place, but groups of replicas share the inputs (inputReplicaGrouping), so that "
            "each replica has a different result. Work on a clone() of it."));
  }
  traced.module->execution() = std::move(execution);
  auto made = std::make_unique<TorchExecutable>(
      session::compile(std::move(traced.module), options, progress), traced);
  if (!options.offline) made->weights_to_device();
  return made;
}

account::Profile profile_model(const TraceRequest& request, const Forward& forward,
                               ir::Execution execution) {
  TraceResult traced = trace_for(execution, request, forward);
  if (execution.optimiser) drop_frozen(*execution.optimiser, request.state);
  traced.module->execution() = std::move(execution);
  return session::profile(std::move(traced.module));
}

}  // namespace poptorch::frontend
