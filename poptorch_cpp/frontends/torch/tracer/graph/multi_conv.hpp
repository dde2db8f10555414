// Scopes whose convolutions are one op of the device: poptorch.MultiConv.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.hpp"

namespace poptorch::frontend {

struct MultiConvSettings {
  bool serial = false;  // one after the other: else together, in one launch
  // Advice for hardware, by name: a text for each convolution, or one for all.
  std::vector<std::pair<std::string, std::vector<std::string>>> values = {};
};

class MultiConvs {
 public:
  explicit MultiConvs(const ir::Builder& builder) : builder_(builder) {}

  // UserError inside of another one.
  void begin(const std::string& place);
  // Marks the convolutions since begin() as one op, with the settings as labels. UserError where
  // there is none, where one needs another's result, and where values are not as many.
  void end(const MultiConvSettings& settings, const std::string& place);
  void abandon() { open_.reset(); }

 private:
  struct Open {
    ir::Graph* graph;
    uint64_t last_id;  // of the ops before
  };
  std::vector<ir::Op*> convolutions(const std::string& place) const;

  const ir::Builder& builder_;
  std::optional<Open> open_;
  int64_t count_ = 0;
};

}  // namespace poptorch::frontend
