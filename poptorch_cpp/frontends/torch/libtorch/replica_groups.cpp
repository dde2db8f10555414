#include "frontends/torch/libtorch/replica_groups.hpp"

#include "ir/text.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;
using support::UserError;

// Returns the number of values on the host; a single value does not add a dimension.
int64_t value_count(const ir::ReplicaGroup& group, int64_t replicas) {
  if (group.all_replicas) return replicas;
  return group.size > 0 ? replicas / group.size : 1;
}

ir::ReplicaGroup group_of(const std::string& name, const ReplicaGroupings::Request& request,
                          int64_t replicas) {
  const int64_t size = request.type == CommGroupType::All          ? replicas
                       : request.type == CommGroupType::NoGrouping ? 1
                                                                   : request.shards;
  if (size < 1 || replicas % size != 0) {
    throw UserError(str("[replicas] parameter ", name, ": groups of ", size, " replicas do not ",
                        "divide the replication factor ", replicas,
                        ". Choose a size that does, or call replicationFactor()."));
  }
  ir::ReplicaGroup group{name, size == replicas ? 0 : size};
  if (request.type == CommGroupType::Orthogonal) group.stride = replicas / size;
  group.all_replicas = request.mode == VariableRetrievalMode::AllReplicas && replicas > 1;
  const int64_t values = value_count(group, replicas);
  const at::Tensor& tensor = request.parameter;
  if (values > 1 && (tensor.dim() == 0 || tensor.size(0) != values)) {
    throw UserError(str("[replicas] parameter ", name, " has the shape ",
                        ir::shape_text(tensor.sizes().vec()), ", but with this replicaGrouping ",
                        "its first dimension must be ", values, ": a value for each ",
                        group.all_replicas ? "replica" : "group",
                        ". Stack the values, or choose another grouping."));
  }
  return group;
}

}  // namespace

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
      found.push_back(group_of(entry.name, request, replicas));
    }
  }
  return found;
}

OnePart::OnePart(std::vector<NamedTensor>& state, const std::vector<ir::ReplicaGroup>& groups,
                 int64_t replicas) {
  const at::NoGradGuard no_grad;
  for (NamedTensor& entry : state) {
    for (const ir::ReplicaGroup& group : groups) {
      if (entry.name != group.name || value_count(group, replicas) == 1) continue;
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
