#include "frontends/torch/saved.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "frontends/torch/aten/call.hpp"
#include "frontends/torch/aten_provider.hpp"
#include "frontends/torch/profiler.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ops/all_ops.hpp"
#include "session/executable_file.hpp"
#include "storage/safetensors.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;
using support::UserError;

bool is_of_model(const ir::StateSlot& slot) {
  return slot.kind == "parameter" || slot.kind == "buffer";
}

void check_state(const session::Executable& executable, const std::vector<NamedTensor>& state) {
  std::map<std::string, const NamedTensor*> given;
  for (const NamedTensor& tensor : state) given.emplace(tensor.name, &tensor);
  for (const ir::StateSlot& slot : executable.states()) {
    if (!is_of_model(slot)) continue;
    const auto found = given.find(slot.name.text());
    if (found == given.end()) {
      throw UserError(str("the executable was compiled for a model with '", slot.name,
                          "', which this one does not have. Wrap the model that was exported."));
    }
    const NamedTensor& named = *found->second;
    const at::Tensor& tensor = named.host.defined() ? named.host : named.tensor;
    const ir::Type type = executable.state_type(slot);
    const ir::DType dtype = ir_dtype(tensor.scalar_type());
    if (tensor.sizes() != at::IntArrayRef(type.shape) ||
        (dtype != type.dtype && narrow(dtype) != type.dtype)) {
      throw UserError(str("the executable was compiled for a model whose '", slot.name, "' is ",
                          type, ", but here it is ", ir::Type{dtype, tensor.sizes().vec()},
                          ". Wrap the model that was exported."));
    }
  }
}

// Returns `traced` with only the names that have a slot: a weight with several names has one slot.
TraceResult with_slots_alone(const session::Executable& executable, const TraceResult& traced) {
  std::set<std::string> slots;
  for (const ir::StateSlot& slot : executable.states()) slots.insert(slot.name.text());
  TraceResult kept;
  kept.outputs = traced.outputs;
  kept.written_inputs = traced.written_inputs;
  std::copy_if(traced.state.begin(), traced.state.end(), std::back_inserter(kept.state),
               [&](const NamedTensor& tensor) { return slots.contains(tensor.name); });
  return kept;
}

// Throws UserError unless the program's outputs fit `traced`. Results come first, then the values
// of written inputs: see TorchExecutable.
void check_results(const session::Executable& executable, const TraceResult& traced) {
  const auto& inputs = executable.input_types();
  const auto& outputs = executable.output_types();
  const auto visible = static_cast<size_t>(
      std::count_if(traced.outputs.begin(), traced.outputs.end(),
                    [](const TraceOutput& output) { return output.index >= 0; }));
  bool fits = visible + traced.written_inputs.size() <= outputs.size();
  for (const TraceOutput& output : traced.outputs) {
    fits = fits && output.index < static_cast<int64_t>(outputs.size());
  }
  for (size_t i = 0; fits && i < traced.written_inputs.size(); ++i) {
    const size_t input = traced.written_inputs[i];
    fits = input < inputs.size() && inputs[input].elements() == outputs[visible + i].elements();
  }
  if (!fits) {
    throw UserError(
        "its description of the results does not match its program. Export the model again.");
  }
}

}  // namespace

std::map<std::string, at::Tensor> saved_state(const storage::Container& file) {
  std::map<std::string, at::Tensor> tensors;
  const auto pages = file.private_pages("state");
  for (const auto& place : storage::read_safetensors(file.read("state"), file.name())) {
    const auto keep = [pages](void*) {};
    tensors.emplace(place.name,
                    at::from_blob(pages.get() + place.offset, place.type.shape, keep,
                                  at::TensorOptions().dtype(torch_dtype(place.type.dtype))));
  }
  return tensors;
}

std::unique_ptr<TorchExecutable> load_model(const std::shared_ptr<const storage::Container>& file,
                                            const TraceResult& traced,
                                            const compile::HostOptions& options, bool with_state) {
  register_aten_provider();
  show_regions_to_profilers();
  auto executable = session::load(file, ops::registry(), options, with_state);
  check_state(*executable, traced.state);
  check_results(*executable, traced);
  const TraceResult kept = with_slots_alone(*executable, traced);
  return std::make_unique<TorchExecutable>(std::move(executable), kept);
}

std::unique_ptr<TorchExecutable> load_outputs(const std::string& path) {
  register_aten_provider();
  show_regions_to_profilers();
  session::Loaded loaded = session::load_file(path, ops::registry());
  return std::make_unique<TorchExecutable>(std::move(loaded.executable), TraceResult());
}

}  // namespace poptorch::frontend
