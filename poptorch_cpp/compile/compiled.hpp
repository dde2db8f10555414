// The result of a compilation, or the part of it that a file keeps.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "compile/options.hpp"
#include "emulator/bound/options.hpp"
#include "ir/execution.hpp"
#include "ir/module.hpp"
#include "program/program.hpp"

namespace poptorch::compile {

// The traced module and the program. stages_of() makes the IR stages between them again. A program
// from a file has no IR stage.
struct Compiled {
  std::unique_ptr<ir::Module> traced = {};
  // The passes that POPTORCH_DISABLE_PASSES named; nullopt if no passes ran.
  std::optional<std::set<std::string>> disabled_passes = {};
  std::optional<ir::Execution> execution = {};
  // "The highest of a replica is IPU 2, of op 'linear' of block 'c' (model.py:4)."; empty for a
  // module on IPU 0 alone.
  std::string highest_ipu = {};
  program::Program program = {};
  emulator::StateBytes state = {};
  CompileRecord record = {};  // its seconds are those before the program is bound
};

// Parses a program's text and verifies the program.
Compiled parsed(std::string_view program, const ir::Registry& registry);

}  // namespace poptorch::compile
