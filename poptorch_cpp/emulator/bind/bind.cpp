#include "emulator/bind/bind.hpp"

#include <array>

#include "emulator/bind/kernel_maker.hpp"
#include "emulator/bound/text.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

constexpr std::array<BindPass, 10> kPasses = {{{"read_halves", read_halves},
                                               {"fuse_chains", fuse_chains},
                                               {"repeat_casts", repeat_casts},
                                               {"attach_epilogues", attach_epilogues},
                                               {"choose_layouts", choose_layouts},
                                               {"choose_kernels", choose_kernels},
                                               {"join_rows", join_rows},
                                               {"join_runs", join_runs},
                                               {"begin_collectives", begin_collectives},
                                               {"plan_arena", plan_arena}}};

}  // namespace

std::span<const BindPass> bind_passes() { return kPasses; }

Code bind(const program::Program& program, const ir::Registry& registry,
          const EngineOptions& options) {
  Plan plan = make_plan(program, registry, options);
  for (const BindPass& pass : kPasses) pass.run(plan);
  Code code = make_code(std::move(plan));
  if (!support::environment_flag("POPTORCH_REPARSE")) return code;
  verify(code);
  return parse_code(print(code), program, registry);
}

Code parse_code(std::string_view text, const program::Program& program,
                const ir::Registry& registry, std::string_view origin) {
  Code code = parse_unbound(text, program, registry, origin);
  for (IpuCode& ipu : code.ipus) finish_steps(code, ipu);
  verify(code);
  const auto instructions = list_instructions(program);
  const KernelMaker maker(program, registry, code, instructions, code.threads);
  for (IpuCode& ipu : code.ipus) {
    for (Step& step : ipu.steps) {
      if (step.kind != Step::Kind::kKernel) continue;
      Kernel& kernel = code.kernels[step.index];
      const auto* op = std::get_if<OpSpec>(&kernel.spec);
      const std::string name = op ? instructions[op->instruction]->op.text() : "";
      kernel = maker.make(std::move(kernel.spec));
      if (!kernel.bound) {
        throw support::UserError(
            support::str("[parse] ", origin, ": '", name, "' has no fast kernel on this host."));
      }
      set_kernel(code, step, name);
    }
  }
  verify(code);
  return code;
}

}  // namespace poptorch::emulator
