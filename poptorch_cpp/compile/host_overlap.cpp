#include "compile/host_overlap.hpp"

#include <algorithm>

#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "lowering/strategy.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::compile {
namespace {

using ir::Op;
using ir::Value;
using support::str;
using support::UserError;

constexpr int kFewestTiles = 32;

// Returns "input" or "output" if the op marks its operand as the model's; else "none".
const std::string& host_of(const Op& op) {
  static const std::string none = "none";
  return op.role() == ir::Role::kIdentity && op.def().find_attr("host")
             ? op.attr<std::string>("host")
             : none;
}

std::string line_of(const Op& op) { return ir::place_text(op.location); }

[[noreturn]] void refuse(const Op& mark, const std::string& text) {
  throw UserError(text + line_of(mark));
}

void check_execution(const Op& mark, const ir::Execution& execution) {
  if (!lowering::find_strategy(execution.strategy).overlaps_host_io) {
    refuse(mark,
           "Overlapped IO is not supported with poptorch.PipelinedExecution. If you are using only "
           "one IPU, please switch to poptorch.ShardedExecution.");
  }
  if (execution.io_tiles == 0) {
    refuse(mark, str("No IO tiles allocated. You must allocate at least ", kFewestTiles,
                     " IO tiles using poptorch.Options().TensorLocations.numIOTiles."));
  }
  const bool gives_all = execution.output_mode == ir::OutputMode::kAll ||
                         execution.output_mode == ir::OutputMode::kSum;
  if (host_of(mark) == "output" && !gives_all) {
    refuse(mark,
           "Unsupported output mode for overlapped IO. Please switch output mode to "
           "poptorch.OutputMode.All or poptorch.OutputMode.Sum.");
  }
}

size_t input_of(const ir::Graph& main, const Op& mark) {
  const Value* marked = mark.operand(0);
  const auto& inputs = main.inputs();
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const auto& input) { return input.get() == marked; });
  if (found == inputs.end()) {
    refuse(mark,
           "poptorch.set_overlap_for_input applied on a node which is not a tensor input to the "
           "model. Apply it to an argument of forward, before any other op.");
  }
  const auto& uses = marked->uses();
  const auto ops = std::count_if(uses.begin(), uses.end(), [](const auto& use) { return use.op; });
  if (ops != 1) {
    refuse(mark,
           str("poptorch.set_overlap_for_input must be the only op applied to an input. This ",
               "is not the case for input ", found - inputs.begin(), " to the model. ", ops,
               " ops use it (the argument ", marked->name(), "): use what set_overlap_for_input ",
               "returns instead."));
  }
  return static_cast<size_t>(found - inputs.begin());
}

// Returns the value of the model that a mark, or a mark of a mark, stands for.
const Value* unmarked(const Value* value) {
  while (value->producer() && host_of(*value->producer()) != "none") {
    value = value->producer()->operand(0);
  }
  return value;
}

size_t output_of(const ir::Graph& main, const Op& mark) {
  const auto& outputs = main.outputs();
  const auto found = std::find(outputs.begin(), outputs.end(), mark.result());
  if (found == outputs.end()) {
    refuse(mark,
           "poptorch.set_overlap_for_output applied on a node which is not a tensor output to the "
           "model. Return what set_overlap_for_output returns.");
  }
  const Value* value = unmarked(mark.operand(0));
  const auto times = std::count_if(outputs.begin(), outputs.end(),
                                   [&](const Value* output) { return unmarked(output) == value; });
  if (times > 1) {
    refuse(mark,
           "poptorch.set_overlap_for_output cannot be used with a tensor that is returned twice. "
           "Please check all returned tensors including those nested in tuples/lists.");
  }
  return static_cast<size_t>(found - outputs.begin());
}

}  // namespace

void take_host_overlaps(ir::Module& module) {
  ir::Graph& main = module.main();
  ir::Execution& execution = module.execution();
  std::vector<Op*> marks = main.op_list();
  std::erase_if(marks, [](const Op* op) { return host_of(*op) == "none"; });
  for (const Op* mark : marks) {
    const bool is_input = host_of(*mark) == "input";
    const size_t place = is_input ? input_of(main, *mark) : output_of(main, *mark);
    auto& overlaps = is_input ? execution.input_overlaps : execution.output_overlaps;
    overlaps.resize(is_input ? main.inputs().size() : main.outputs().size());
    overlaps[place] = mark->attr<std::string>("overlap");
  }
  for (Op* mark : marks) {
    check_execution(*mark, execution);
    mark->result()->replace_all_uses_with(mark->operand(0));
    main.erase(mark);
  }
}

}  // namespace poptorch::compile
