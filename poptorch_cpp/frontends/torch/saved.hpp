// Loads models that were compiled elsewhere: makes an executable on torch tensors from a file of
// session/executable_file.hpp, without a trace.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/compile.hpp"
#include "storage/container.hpp"

namespace poptorch::frontend {

// Returns the section `state` as tensors, by slot name. They share the file's memory until they are
// written; the file itself stays unchanged.
std::map<std::string, at::Tensor> saved_state(const storage::Container& file);

// Loads a model's executable. `traced` holds the trace's results other than the program, so it
// needs no module. Throws UserError if its state differs from the program's in names, shapes or
// dtypes, or if its outputs do not fit. The model's tensors are not written. The device holds the
// file's state, unless `with_state` is false; weights_to_device() gives it the model's.
std::unique_ptr<TorchExecutable> load_model(const std::shared_ptr<const storage::Container>& file,
                                            const TraceResult& traced,
                                            const compile::HostOptions& options, bool with_state);

// Loads a file without a model: the executable returns the program's outputs in their order and has
// no model tensors. Throws UserError as session::load_file() does.
std::unique_ptr<TorchExecutable> load_outputs(const std::string& path);

}  // namespace poptorch::frontend
