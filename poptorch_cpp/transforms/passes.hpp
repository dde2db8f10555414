// The passes, IR → IR. Each is one free function; its contract is the comment above its line here. The
// table names them for the pipeline's wrapper, POPTORCH_DUMP and the golden tests.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/module.hpp"
#include "transforms/optimiser_spec.hpp"

namespace poptorch::transforms {

// What passes need to know beyond the module.
struct PassContext {
  bool training = false;
  int64_t gradient_accumulation = 1;
  int64_t replication_factor = 1;
  bool mean_reduction = true;  // of gradients over accumulation and replicas; false: sum
  std::optional<OptimiserSpec> optimiser;
};

using PassFunction = void (*)(ir::Module&, PassContext&);

struct PassRow {
  std::string_view name;
  PassFunction run;
};

// Every pass, in no particular order: session/pipeline.cpp is the order.
const std::vector<PassRow>& all_passes();

}  // namespace poptorch::transforms
