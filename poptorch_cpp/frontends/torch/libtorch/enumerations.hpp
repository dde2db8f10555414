// The compiler's values for those of public enumerations. InternalError for a value that stands for
// others.
#pragma once

#include "account/memory_limit.hpp"
#include "ir/execution.hpp"
#include "poptorch/options.hpp"

namespace poptorch {

ir::OutputMode core_value(OutputMode mode);  // not of Default
ir::Liveness core_value(Liveness liveness);
ir::CommGroup core_value(CommGroupType type);
account::MemoryLimit core_value(MemoryLimit limit);

}  // namespace poptorch
