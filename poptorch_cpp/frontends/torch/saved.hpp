// Models that were compiled elsewhere: from a file of session/executable_file.hpp to an executable
// on torch tensors, without a trace.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/compile.hpp"
#include "storage/container.hpp"

namespace poptorch::frontend {

// The section `state` as tensors, by the names of slots. They share the file's memory until they
// are written, which the file does not see.
std::map<std::string, at::Tensor> saved_state(const storage::Container& file);

// What a trace found beside the program is in `traced`, which needs no module. UserError before
// anything is written where its state is not the program's, by names and shapes. The device has
// what the file has, unless with_state is false; weights_to_device() gives it the model's.
std::unique_ptr<TorchExecutable> load_model(const std::shared_ptr<const storage::Container>& file,
                                            const TraceResult& traced,
                                            const compile::HostOptions& options, bool with_state);

// A whole file: what the program puts out, in its order, and no tensors of a model. UserError as
// session::load_file.
std::unique_ptr<TorchExecutable> load_outputs(const std::string& path);

}  // namespace poptorch::frontend
