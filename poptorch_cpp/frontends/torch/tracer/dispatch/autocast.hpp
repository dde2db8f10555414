// Implements torch.autocast for operators that the tracer takes whole. torch's own casts come after
// the tracer in the dispatcher, so such operators do not reach them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace poptorch::frontend {

// Casts floating tensors among `arguments` as CPU autocast does for `op` ("linear"). Does nothing
// if autocast is off.
void apply_autocast(const std::string& op, std::vector<c10::IValue>& arguments);

}  // namespace poptorch::frontend
