// How a module is to be executed: the front ends' requests and the passes' findings. It is part of
// the module and of its text:
//
//   execution {device_iterations=4, strategy="serial_phased", training=true}
//   location "weights" {on_chip=false}
//   replica_group "fc.weight" {size=2}
//   anchor "fc*" {mode="EveryN", period=2}
//   optimiser "sgd" {loss_scaling=8.0}
//   optimiser_group "0" {lr=0.1, parameters=["fc.weight"], variable=["lr"]}
//
// Defaults are not printed. execution_options.cpp is the table of all options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/attr.hpp"
#include "ir/limits.hpp"
#include "ir/locations.hpp"
#include "ir/optimiser_spec.hpp"

namespace poptorch::ir {

// Which micro-batches of a run an output returns.
enum class OutputMode : uint8_t { kFinal, kEveryN, kAll, kSum };

// Which values wait off the chip for a later phase.
enum class Liveness : uint8_t {
  kAlwaysLive,                // none
  kOffChipAfterFwd,           // values for the backward pass; their transfers share the neighbours'
                              // phases
  kOffChipAfterFwdNoOverlap,  // the same; transfers have separate phases
  kOffChipAfterEachPhase,     // all
};

// Returns the value's word in the text, which is also its name in poptorch.
const std::string& word(OutputMode mode);
const std::string& word(Liveness liveness);

// Selects which replicas form a group: all, neighbours, those at equal distances, or each alone.
enum class CommGroup : uint8_t { kAll, kConsecutive, kOrthogonal, kNoGrouping };

// Returns their names in poptorch, in order.
const std::vector<std::string>& comm_group_words();
// UserError for another word.
CommGroup comm_group_of(const std::string& text);

// Values, by name with * and ?, that main returns after its own outputs.
struct Anchor {
  std::string name = {};
  OutputMode mode = OutputMode::kAll;
  int64_t period = 1;
};

// One of main's last outputs, with the anchor that requested it. The anchor passes record these.
struct Anchored {
  std::string name = {};
  int64_t anchor = 0;
};

// Replicas that share one value of a parameter: `size` of them, `stride` apart; size 0: all.
struct ReplicaGroup {
  std::string name = {};
  int64_t size = 0, stride = 1;
  bool all_replicas = false;  // the host has a value of each replica, not of each group

  int64_t held_size() const { return all_replicas ? 1 : size; }  // replicas that share a host value
  // Returns the number of values on the host; a single value does not add a dimension.
  int64_t values(int64_t replicas) const;
};

struct Execution {
  bool training = false;
  std::string strategy = "pipelined";  // a row of lowering/strategies.cpp
  std::string device = "ipu2";         // a profile of target/
  int64_t device_iterations = 1, gradient_accumulation = 1, replication_factor = 1;
  int64_t link_domain = kLinkDomain;
  int64_t sharding_replicas = 0;  // over which tensors under replicated sharding are split; 0: all
  // Replicas that read the same inputs: groups of `size`, `stride` apart.
  int64_t input_group_size = 1, input_group_stride = 1;
  OutputMode output_mode = OutputMode::kAll;
  int64_t output_period = 1;
  // The last `whole_outputs` of main's own outputs ignore output_mode: they return every
  // micro-batch's value.
  int64_t whole_outputs = 0;
  bool mean_reduction = true;    // of gradients over accumulation and replicas; false: sum
  bool recompute = true;         // forward values in the backward stages of a pipeline
  bool recompute_alone = false;  // in the last stage or without stages, from checkpoints
  bool stochastic_rounding = false, floating_point_exceptions = false, check_indices = false;
  uint64_t random_seed = 0;
  Liveness liveness = Liveness::kAlwaysLive;
  bool separate_host_sync = false;       // a pipeline's IPUs do not wait for each other's host
  bool separate_backward_phase = false;  // the last forward phase is not the first backward phase
  bool outline = true;                   // equal work shares its code
  int64_t io_tiles = 0;                  // of each IPU, reserved for I/O
  bool half_partials = false;            // of products in float16: rounded, see choose_partials
  // The share of a tile's memory for temporary data of products, by IPU; empty: the default.
  Strings memory_proportions = {};
  // Passes set these.
  int64_t forward_stages = 1;      // of the pipeline
  int64_t last_forward_phase = 0;  // its number
  // The loop that the transfers of each input and output overlap with; "none" if there is none.
  Strings input_overlaps = {}, output_overlaps = {};

  TensorLocations locations = {};
  std::vector<ReplicaGroup> replica_groups = {};  // of parameters
  std::vector<Anchor> anchors = {};
  std::vector<Anchored> anchored = {};
  std::optional<OptimiserSpec> optimiser = {};  // of training

  // Returns the share of a tile's memory on an IPU, if it is given.
  std::optional<double> memory_proportion(size_t ipu) const;
  // Returns the parameter's group: by default, all its replicas.
  ReplicaGroup group_of(const std::string& parameter) const;
  // Returns the micro-batches of one replica in one run.
  int64_t micro_batches() const;
  // Returns the groups of replicas that read the same inputs.
  int64_t input_groups() const { return replication_factor / input_group_size; }
  // Returns the micro-batches in dimension 0 of an input of one run.
  int64_t input_factor() const;
};

struct OptionText;

// A line of the text.
struct ExecutionLine {
  std::string keyword = {};
  std::string name = {};  // empty for `execution`
  Attrs attrs = {};

  bool operator==(const ExecutionLine&) const = default;
};

// Returns the lines for everything that is not a default. Applied in order, they give an equal
// description.
std::vector<ExecutionLine> lines_of(const Execution& execution);
// Applies a line. UserError for an unknown option, a wrong type or a value out of range; then
// nothing is changed.
void take_line(Execution& execution, const ExecutionLine& line);
bool is_execution_keyword(const std::string& word);
// Returns every option, in the order of the text.
std::vector<OptionText> execution_table();
// UserError if a value is out of its range or two contradict each other. `outputs` is the number of
// main's outputs.
void check(const Execution& execution, size_t outputs);

// For front ends, before there is a module. A defect is empty if there is none.

// Explains why an input of `rows` rows cannot be split into micro-batches.
std::string batch_defect(const Execution& execution, const std::string& input, int64_t rows);
// Explains which options a model that is wrapped for inference cannot have.
std::string wrapper_defect(const Execution& execution);
// Sets the groups of replicas that read the same inputs. `size` counts for kConsecutive and
// kOrthogonal. UserError for groups that cannot be formed of the replicas.
void group_inputs(Execution& execution, CommGroup kind, int64_t size);
// Returns the groups of replicas that share a value of parameter `name`, of which the host holds a
// tensor of this shape. `size` has the meaning that it has in group_inputs(). Raises UserError for
// groups that cannot be formed of the replicas, and for a shape without a value for each.
ReplicaGroup group_parameter(const std::string& name, const std::vector<int64_t>& shape,
                             CommGroup kind, int64_t size, bool all_replicas, int64_t replicas);

}  // namespace poptorch::ir
