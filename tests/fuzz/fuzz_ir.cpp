// The target of IR text.
#include <functional>
#include <stdexcept>

#include "account/report.hpp"
#include "compile/pipeline.hpp"
#include "emulator/engine.hpp"
#include "ir/op_def.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "lowering/strategy.hpp"
#include "ops/all_ops.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "targets.hpp"

namespace poptorch::fuzz {
namespace {

// Beyond these a text is parsed and printed, but not compiled, or compiled but not run.
constexpr size_t kMostOps = 400;   // with those of called graphs
constexpr double kMostWork = 3e6;  // of a run, in operations and bytes
constexpr int64_t kMostMemory = 1 << 24;
constexpr size_t kMostText = 1 << 19;  // of a form that is parsed again

void require(bool law, const std::string& text) {
  if (!law) throw std::logic_error("broken law: " + text);
}

// Uses the execution that the text describes, or else one that its hash picks.
void choose_execution(ir::Module& module, std::string_view text) {
  ir::Execution& execution = module.execution();
  if (text.find("execution") != std::string_view::npos) return;
  uint64_t hash = std::hash<std::string_view>()(text);
  auto pick = [&](uint64_t n) {
    const uint64_t choice = hash % n;
    hash /= n;
    return static_cast<int64_t>(choice);
  };
  execution.strategy =
      lowering::strategies()[static_cast<size_t>(pick(lowering::strategies().size()))].name;
  execution.gradient_accumulation = 1 + pick(3);
  execution.replication_factor = int64_t{1} << pick(3);
  execution.device_iterations = 1 + pick(2);
  execution.floating_point_exceptions = pick(4) == 0;
  execution.stochastic_rounding = pick(4) == 0;
  execution.recompute = pick(2) == 0;
  if (text.find("identity_loss") == std::string_view::npos) return;
  execution.training = true;
  ir::OptimiserGroup group;
  group.values = {{"lr", 0.125}};
  for (const auto& slot : module.states()) {
    if (slot->kind == "parameter") group.parameters.push_back(slot->name.text());
  }
  execution.optimiser.emplace();
  execution.optimiser->kind = pick(2) ? "sgd" : "adam";
  execution.optimiser->groups = {group};
}

// Ops and work of a graph with all that it calls, as often as it does.
struct Size {
  size_t ops = 0;
  double work = 0;
};

Size size_of(const ir::Graph& graph) {
  Size size;
  for (const ir::Op* op : graph.ops()) {
    const ir::Cost cost = op->def().cost(*op);
    size.ops += 1;
    size.work += cost.flops + cost.bytes;
    const double rounds = op->is("repeat") ? static_cast<double>(op->attr<int64_t>("count")) : 1;
    for (const auto& [key, value] : op->attrs()) {
      const auto* reference = std::get_if<ir::GraphRef>(&value);
      if (!reference || size.ops > kMostOps) continue;
      const Size inner = size_of(*graph.module().find_graph(reference->name));
      size.ops += inner.ops;
      size.work += rounds * (1 + inner.work);
    }
  }
  return size;
}

bool is_small(const compile::Compiled& compiled, const ir::Module& placed) {
  const Size size = size_of(placed.main());
  const double batches = static_cast<double>(compiled.program.micro_batches_per_run);
  const auto replicas = static_cast<double>(compiled.program.replicas);
  if (size.work * batches * replicas > kMostWork) return false;
  double bytes = 0;
  for (const auto& ipu : compiled.program.ipus) {
    bytes += static_cast<double>(ipu.arena_bytes + ipu.state_bytes + ipu.constant_bytes);
  }
  for (const auto& stream : compiled.program.streams) {
    bytes += static_cast<double>(stream.transfers) *
             (16 + static_cast<double>(stream.host.type.bytes()));
  }
  for (const auto& buffer : compiled.program.remote_buffers) {
    bytes += static_cast<double>(buffer.entries) * static_cast<double>(buffer.type.bytes());
  }
  for (const auto& stash : compiled.program.stashes) {
    bytes += static_cast<double>(stash.depth) * static_cast<double>(stash.type.bytes());
  }
  return bytes * replicas < kMostMemory;
}

void run(compile::Compiled compiled) {
  emulator::Engine engine(std::move(compiled.program), ops::registry(), {.threads = 1});
  std::vector<std::vector<std::byte>> buffers;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (const program::Stream& stream : engine.program().streams) {
    const auto bytes = static_cast<size_t>(stream.host_type(engine.program().replicas).bytes());
    buffers.emplace_back(bytes + 1);
    // Small numbers in every type.
    const bool truths = stream.host.type.dtype == ir::DType::kBool;
    for (size_t i = 0; i < bytes; ++i) {
      buffers.back()[i] = std::byte(i % 4 == 3 && !truths ? 0x3f : i % 2);
    }
    if (stream.host.to_device) {
      inputs.push_back(buffers.back().data());
    } else {
      outputs.push_back(buffers.back().data());
    }
  }
  engine.run(inputs, outputs);
}

void compile(const ir::Module& module, std::string_view text, Reached& reached) {
  auto copy = module.clone();
  choose_execution(*copy, text);
  compile::Compiled compiled = compile::compile_to_program(
      std::move(copy), {.memory_limit = account::MemoryLimit::kOff, .round_ipu_count = true}, {});
  const compile::Stages stages = compile::stages_of(compiled);
  for (const auto* form : {&stages.normal, &stages.differentiated, &stages.placed}) {
    const std::string printed = ir::print(**form, ir::kEverything);
    if (printed.size() > kMostText) continue;  // long constants
    const auto again = ir::parse(printed, ops::registry(), "form");
    require(ir::print(*again, ir::kEverything) == printed, printed);
  }
  const std::string printed = program::print(compiled.program);
  const program::Program again = program::parse(printed, ops::registry(), "program");
  require(program::print(again) == printed, printed);
  program::verify(again);
  account::make_report(compiled.program);
  reached = Reached::kCompiled;
  if (!is_small(compiled, *stages.placed)) return;
  run(std::move(compiled));
  reached = Reached::kRun;
}

}  // namespace

Reached fuzz_ir(std::string_view text) {
  std::unique_ptr<ir::Module> module;
  try {
    module = ir::parse(text, ops::registry(), "fuzz");
  } catch (const support::UserError&) {
    return Reached::kNothing;
  }
  module->note_change();
  ir::verify(*module);
  const std::string printed = ir::print(*module, {.locations = true});
  const auto again = ir::parse(printed, ops::registry(), "printed");
  std::string why;
  require(ir::structurally_equal(*module, *again, &why), why + "\n" + printed);
  require(ir::print(*again, {.locations = true}) == printed, printed);
  const ir::Graph* main = module->find_graph("main");
  if (!main || size_of(*main).ops > kMostOps) return Reached::kVerified;
  Reached reached = Reached::kVerified;
  try {
    compile(*module, text, reached);
  } catch (const support::InternalError& error) {
    require(false, error.what());
  } catch (const support::Error&) {
  }
  return reached;
}

}  // namespace poptorch::fuzz
