// Handles parameters that have a value for each group of replicas.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "ir/execution.hpp"
#include "poptorch/options.hpp"

namespace poptorch::frontend {

class ReplicaGroupings {
 public:
  struct Request {
    at::Tensor parameter;
    CommGroupType type;
    int64_t shards;
    VariableRetrievalMode mode;
  };
  // Records a request; the last one for a parameter applies.
  void request(const Request& request);
  // Returns the group of each parameter of `state`. UserError for groups that do not fit.
  std::vector<ir::ReplicaGroup> groups(const std::vector<NamedTensor>& state,
                                       int64_t replicas) const;

 private:
  std::vector<Request> requests_;
};

// Reduces grouped parameters to one replica's part while it lives.
class OnePart {
 public:
  // `state` names the tensors that hold all values of each grouped parameter.
  OnePart(std::vector<NamedTensor>& state, const std::vector<ir::ReplicaGroup>& groups,
          int64_t replicas);
  ~OnePart();
  OnePart(const OnePart&) = delete;
  OnePart& operator=(const OnePart&) = delete;

 private:
  std::vector<NamedTensor> replaced_;
};

}  // namespace poptorch::frontend
