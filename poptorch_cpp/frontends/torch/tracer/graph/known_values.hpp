// What values hold that follow from constants alone: from no input, no state and no random number.
#pragma once

#include <optional>
#include <unordered_map>

#include "frontends/torch/tracer/graph/region.hpp"

namespace poptorch::frontend {

class KnownValues {
 public:
  // `finite`: numbers that are not known count as finite, so that questions whether they are have
  // answers.
  explicit KnownValues(const Regions& regions, bool finite = false)
      : regions_(regions), finite_(finite) {}

  // What `value` holds, by running the ops that make it, each once; nullptr where it is not known
  // while the model is traced. In a region, what comes from outside may be another value in each
  // round, and is not known.
  const ir::Literal* of(const ir::Value* value);

 private:
  bool find_out(const ir::Op& op);

  std::optional<ir::Literal> unknown(const ir::Op* op) const;

  const Regions& regions_;
  const bool finite_;
  std::unordered_map<const ir::Value*, std::optional<ir::Literal>> found_;  // none: not known
};

}  // namespace poptorch::frontend
