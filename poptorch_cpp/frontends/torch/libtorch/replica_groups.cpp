#include "frontends/torch/libtorch/replica_groups.hpp"

#include "frontends/torch/libtorch/enumerations.hpp"

namespace poptorch::frontend {

void ReplicaGroupings::request(const Request& request) {
  std::erase_if(requests_,
                [&](const Request& r) { return r.parameter.is_same(request.parameter); });
  requests_.push_back(request);
}

std::vector<ir::ReplicaGroup> ReplicaGroupings::groups(const std::vector<NamedTensor>& state,
                                                       int64_t replicas) const {
  std::vector<ir::ReplicaGroup> found;
  for (const NamedTensor& entry : state) {
    for (const Request& request : requests_) {
      if (!entry.tensor.is_same(request.parameter)) continue;
      found.push_back(ir::group_parameter(
          entry.name, entry.tensor.sizes().vec(), core_value(request.type), request.shards,
          request.mode == VariableRetrievalMode::AllReplicas, replicas));
    }
  }
  return found;
}

OnePart::OnePart(std::vector<NamedTensor>& state, const std::vector<ir::ReplicaGroup>& groups,
                 int64_t replicas) {
  const at::NoGradGuard no_grad;
  for (NamedTensor& entry : state) {
    for (const ir::ReplicaGroup& group : groups) {
      if (entry.name != group.name || group.values(replicas) == 1) continue;
      entry.host = entry.tensor.detach();
      entry.tensor.set_data(entry.host[0].clone());
      replaced_.push_back(entry);
    }
  }
}

OnePart::~OnePart() {
  for (const NamedTensor& entry : replaced_) entry.tensor.set_data(entry.host);
}

}  // namespace poptorch::frontend
