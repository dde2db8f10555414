// Evaluates values that follow from constants alone: from no input, no state and no random number.
#pragma once

#include <optional>
#include <unordered_map>

#include "frontends/torch/tracer/graph/region.hpp"

namespace poptorch::frontend {

class KnownValues {
 public:
  // If `finite` is set, unknown numbers count as finite, so that checks for finite numbers have
  // answers.
  explicit KnownValues(const Regions& regions, bool finite = false)
      : regions_(regions), finite_(finite) {}

  // Returns the contents of `value` by running the ops that make it, each once. Returns nullptr if
  // they are not known while the model is traced. In a region, a value from outside may differ in
  // each round, and is not known.
  const ir::Literal* of(const ir::Value* value);

 private:
  bool find_out(const ir::Op& op);

  std::optional<ir::Literal> unknown(const ir::Op* op) const;

  const Regions& regions_;
  const bool finite_;
  std::unordered_map<const ir::Value*, std::optional<ir::Literal>> found_;  // nullopt: not known
};

}  // namespace poptorch::frontend
