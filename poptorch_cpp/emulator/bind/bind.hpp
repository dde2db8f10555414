// Binds a program to this host: runs the passes of plan.hpp, in order.
#pragma once

#include <span>
#include <string_view>

#include "emulator/bind/plan.hpp"
#include "emulator/bound/code.hpp"

namespace poptorch::emulator {

struct BindPass {
  std::string_view name;
  void (*run)(Plan& plan);
};
// Returns the passes between make_plan() and make_code().
std::span<const BindPass> bind_passes();

// `options` are complete: see Engine. The program must outlive the code.
Code bind(const program::Program& program, const ir::Registry& registry,
          const EngineOptions& options);
// Reads a code from its text (bound/text.hpp) and binds its kernels again. UserError for bad text,
// InternalError for a code that verify() refuses.
Code parse_code(std::string_view text, const program::Program& program,
                const ir::Registry& registry, std::string_view origin = "text");

}  // namespace poptorch::emulator
