// What values hold that follow from constants alone: from no input, no state and no random number.
#pragma once

#include <optional>
#include <unordered_map>

#include "frontends/torch/tracer/region.hpp"

namespace poptorch::frontend {

class KnownValues {
 public:
  explicit KnownValues(const Regions& regions) : regions_(regions) {}

  // What `value` holds, by running the ops that make it, each once; nullptr where it is not known
  // while the model is traced. In a region, what comes from outside may be another value in each
  // round, and is not known.
  const ir::Literal* of(const ir::Value* value);

 private:
  bool find_out(const ir::Op& op);

  const Regions& regions_;
  std::unordered_map<const ir::Value*, std::optional<ir::Literal>> found_;  // none: not known
};

}  // namespace poptorch::frontend
