// Answers questions of front ends and passes about an execution.
#include "ir/execution.hpp"

#include <charconv>

#include "ir/option_table.hpp"
#include "ir/type.hpp"
#include "support/saturate.hpp"

namespace poptorch::ir {

using support::saturating_product;
using support::str;
using support::UserError;

const std::vector<std::string>& comm_group_words() {
  static const std::vector<std::string> words = {"All", "Consecutive", "Orthogonal", "NoGrouping"};
  return words;
}

CommGroup comm_group_of(const std::string& text) {
  const std::vector<std::string>& words = comm_group_words();
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return static_cast<CommGroup>(i);
  }
  option_value::refuse("the kind of a group", text, {.words = words}, "str");
}

ReplicaGroup Execution::group_of(const std::string& parameter) const {
  for (const ReplicaGroup& group : replica_groups) {
    if (group.name == parameter) return group;
  }
  return {};
}

std::optional<double> Execution::memory_proportion(size_t ipu) const {
  if (ipu >= memory_proportions.size() || memory_proportions[ipu].empty()) return {};
  const std::string& text = memory_proportions[ipu];
  const char* end = text.data() + text.size();
  double share = 0;
  const auto [at, error] = std::from_chars(text.data(), end, share);
  if (error == std::errc() && at == end && share >= 0 && share <= 1) return share;
  throw UserError(str("[execution] the memory proportion of IPU ", ipu, " is ",
                      support::quoted(text), ". It must be from 0 to 1."));
}

int64_t Execution::micro_batches() const {
  return saturating_product(device_iterations, gradient_accumulation);
}

int64_t Execution::input_factor() const {
  return saturating_product(micro_batches(), input_groups());
}

std::string batch_defect(const Execution& e, const std::string& input, int64_t rows) {
  const int64_t factor = e.input_factor();
  if (factor > 0 && rows % factor == 0) return "";
  return str("Invalid batch dimension: In the input ", input, ", the batch dimension (", rows,
             ") must be a multiple of Options.deviceIterations(", e.device_iterations,
             ") * (Options.replicationFactor(", e.replication_factor,
             ") / Options.inputReplicaGrouping(", e.input_group_size,
             ")) * Options.Training.gradientAccumulation(", e.gradient_accumulation, ") = ", factor,
             ". Change the batch size or these options.");
}

void group_inputs(Execution& execution, CommGroup kind, int64_t size) {
  const int64_t replicas = execution.replication_factor;
  if (kind == CommGroup::kAll) {
    throw UserError(
        "[options] CommGroupType.All is not supported for input groups. Name a group's size.");
  }
  if (kind == CommGroup::kNoGrouping) size = 1;
  if (size < 1 || replicas % size != 0) {
    throw UserError(str("[options] inputReplicaGrouping: groups of ", size,
                        " replicas cannot be formed, since ", size,
                        " must divide the replication factor ", replicas,
                        ". Call replicationFactor() first, or choose a size that does."));
  }
  execution.input_group_size = size;
  execution.input_group_stride = kind == CommGroup::kOrthogonal ? replicas / size : 1;
}

int64_t ReplicaGroup::values(int64_t replicas) const {
  if (all_replicas) return replicas;
  return size > 0 ? replicas / size : 1;
}

ReplicaGroup group_parameter(const std::string& name, const Shape& shape, CommGroup kind,
                             int64_t size, bool all_replicas, int64_t replicas) {
  if (kind == CommGroup::kAll) size = replicas;
  if (kind == CommGroup::kNoGrouping) size = 1;
  if (size < 1 || replicas % size != 0) {
    throw UserError(str("[replicas] parameter ", name, ": groups of ", size,
                        " replicas do not divide the replication factor ", replicas,
                        ". Choose a size that does, or call replicationFactor()."));
  }
  ReplicaGroup group{name, size == replicas ? 0 : size};
  if (kind == CommGroup::kOrthogonal) group.stride = replicas / size;
  group.all_replicas = all_replicas && replicas > 1;
  const int64_t values = group.values(replicas);
  if (values > 1 && (shape.empty() || shape[0] != values)) {
    throw UserError(str("[replicas] parameter ", name, " has the shape ", shape_text(shape),
                        ", but with this replicaGrouping its first dimension must be ", values,
                        ": a value for each ", group.all_replicas ? "replica" : "group",
                        ". Stack the values, or choose another grouping."));
  }
  return group;
}

std::string wrapper_defect(const Execution& execution) {
  if (execution.training || execution.gradient_accumulation == 1) return "";
  const std::string text =
      "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its "
      "default value (1) when running a poptorch.inferenceModel().";
  if (execution.strategy != "pipelined") return text;
  return text +
         " Use poptorch.Options().deviceIterations to process a sufficient number of batches each "
         "run for pipelined execution instead.";
}

}  // namespace poptorch::ir
