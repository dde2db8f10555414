// Runs the passes of the emulator's binding on a program, for golden tests.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "emulator/bind/bind.hpp"
#include "emulator/bind/keep_values.hpp"
#include "emulator/bound/text.hpp"
#include "ops/all_ops.hpp"
#include "support/error.hpp"

namespace poptorch {

// Returns the text after the last pass: the program, the plan (with its nodes before the pass), or
// the code. The word `begin_ahead` among the passes sets an option.
inline std::string bound_outcome(program::Program program, std::span<const std::string> passes) {
  const ir::Registry& registry = ops::registry();
  emulator::EngineOptions options{.threads = 1};
  std::optional<emulator::Plan> plan;
  std::string text = program::print(program);
  for (const std::string& name : passes) {
    if (name == "begin_ahead") {
      options.begin_ahead = true;
      continue;
    }
    if (name == "keep_recomputed") {
      if (auto kept = emulator::keep_recomputed(program, registry)) program = std::move(*kept);
      program::verify(program);
      text = program::print(program);
      continue;
    }
    if (!plan) plan.emplace(emulator::make_plan(program, registry, options));
    if (name == "make_code") {
      const emulator::Code code = emulator::make_code(std::move(*plan));
      emulator::verify(code);
      return emulator::print(code);
    }
    text = emulator::print(*plan);
    if (name == "make_plan") continue;
    const std::string before = emulator::print_nodes(*plan);
    const auto known = emulator::bind_passes();
    const auto pass = std::ranges::find(known, name, &emulator::BindPass::name);
    if (pass == known.end()) throw support::UserError("there is no pass '" + name + "'.");
    pass->run(*plan);
    text = "before " + name + ":\n" + before + "after " + name + ":\n" + emulator::print(*plan);
  }
  return text;
}

}  // namespace poptorch
