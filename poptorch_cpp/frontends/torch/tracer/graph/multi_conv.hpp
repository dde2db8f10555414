// Handles poptorch.MultiConv: scopes whose convolutions are one op of the device.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.hpp"

namespace poptorch::frontend {

struct MultiConvSettings {
  bool serial = false;  // one after the other; otherwise together, in one launch
  // Holds hints for the hardware by name: one text per convolution, or one for all.
  std::vector<std::pair<std::string, std::vector<std::string>>> values = {};
};

class MultiConvs {
 public:
  explicit MultiConvs(const ir::Builder& builder) : builder_(builder) {}

  // Throws UserError inside another scope.
  void begin(const std::string& place);
  // Marks the convolutions since begin() as one op, with the settings as labels. Throws UserError
  // if there are none, if one needs another's result, or if a setting has a wrong number of values.
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
