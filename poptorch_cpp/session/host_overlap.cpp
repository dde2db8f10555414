// Implements host_overlap.hpp.
#include "session/host_overlap.hpp"

#include <algorithm>

#include "lowering/strategy.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::session {
namespace {

using ir::Op;
using ir::Value;
using support::str;
using support::UserError;

constexpr int kFewestTiles = 32;

// "input" or "output", where the op marks what its operand is of the model; else "none".
const std::string& host_of(const Op& op) {
  static const std::string none = "none";
  return op.role() == ir::Role::kIdentity && op.def().find_attr("host")
             ? op.attr<std::string>("host")
             : none;
}

std::string line_of(const Op& op) { return ir::place_text(op.location); }

void check_execution(const Op& mark, const ir::Execution& execution) {
  if (!lowering::find_strategy(execution.strategy).overlaps_host_io) {
    throw UserError(str(
        "Overlapped IO is not supported with poptorch.PipelinedExecution. If you are using only ",
        "one IPU, or one at a time, use poptorch.ShardedExecution instead: ",
        "options.setExecutionStrategy(poptorch.ShardedExecution())", line_of(mark), "."));
  }
  if (execution.io_tiles == 0) {
    throw UserError(str("No IO tiles allocated. You must allocate at least ", kFewestTiles,
                        " IO tiles using poptorch.Options().TensorLocations.numIOTiles",
                        line_of(mark), "."));
  }
}

size_t input_of(const ir::Graph& main, const Op& mark) {
  const Value* marked = mark.operand(0);
  const auto& inputs = main.inputs();
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const auto& input) { return input.get() == marked; });
  if (found == inputs.end()) {
    throw UserError(str("poptorch.set_overlap_for_input applied on a node which is not a tensor ",
                        "input to the model", line_of(mark),
                        ". Apply it to an argument of forward, before any other op."));
  }
  const auto& uses = marked->uses();
  const auto ops = std::count_if(uses.begin(), uses.end(), [](const auto& use) { return use.op; });
  if (ops != 1) {
    throw UserError(str("poptorch.set_overlap_for_input must be the only op applied to the input",
                        line_of(mark), ", but ", ops,
                        " ops use it. Use what set_overlap_for_input returns instead."));
  }
  return static_cast<size_t>(found - inputs.begin());
}

void check_output(const ir::Graph& main, const Op& mark, ir::OutputMode mode) {
  const auto& outputs = main.outputs();
  if (std::find(outputs.begin(), outputs.end(), mark.result()) == outputs.end()) {
    throw UserError(str("poptorch.set_overlap_for_output applied on a node which is not a tensor ",
                        "output of the model", line_of(mark),
                        ". Return what set_overlap_for_output returns."));
  }
  if (mode == ir::OutputMode::kAll || mode == ir::OutputMode::kSum) return;
  throw UserError(str("Unsupported output mode for overlapped IO: ",
                      mode == ir::OutputMode::kFinal ? "Final" : "EveryN", line_of(mark),
                      ". Set poptorch.Options().outputMode to poptorch.OutputMode.All or Sum."));
}

}  // namespace

void take_host_overlaps(ir::Module& module) {
  ir::Graph& main = module.main();
  ir::Execution& execution = module.execution();
  for (Op* op : main.op_list()) {
    if (host_of(*op) == "none") continue;
    check_execution(*op, execution);
    if (host_of(*op) == "input") {
      execution.input_overlaps.resize(main.inputs().size());
      execution.input_overlaps[input_of(main, *op)] = op->attr<std::string>("overlap");
    } else {
      check_output(main, *op, execution.output_mode);
      execution.output_overlaps.resize(main.outputs().size());
      for (size_t i = 0; i < main.outputs().size(); ++i) {
        if (main.outputs()[i] == op->result())
          execution.output_overlaps[i] = op->attr<std::string>("overlap");
      }
    }
  }
  for (Op* op : main.op_list()) {
    if (host_of(*op) == "none") continue;
    op->result()->replace_all_uses_with(op->operand(0));
    main.erase(op);
  }
}

}  // namespace poptorch::session
