// torch.autocast for operators that the tracer takes whole: torch's own casts stand below the
// tracer in the dispatcher, so they are made here.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace poptorch::frontend {

// Casts floating tensors among `arguments` as CPU autocast does for `op` ("linear"); nothing when
// autocast is off.
void apply_autocast(const std::string& op, std::vector<c10::IValue>& arguments);

}  // namespace poptorch::frontend
