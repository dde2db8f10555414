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
#include "program/program.hpp"

namespace poptorch::ir {
class Module;
class Registry;
}  // namespace poptorch::ir
namespace poptorch::emulator {
struct BoundProgram;  // bind/bound_program.hpp
}

namespace poptorch::compile {

// The traced module and the program. stages_of() makes the IR stages between them again. A program
// from a file has no IR stage.
struct Compiled {
  std::shared_ptr<const ir::Module> traced = {};
  // The passes that POPTORCH_DISABLE_PASSES named; nullopt if no passes ran.
  std::optional<std::set<std::string>> disabled_passes = {};
  std::optional<ir::Execution> execution = {};
  // "The highest of a replica is IPU 2, of op 'linear' of block 'c' (model.py:4)."; empty for a
  // module on IPU 0 alone.
  std::string highest_ipu = {};
  program::Program program = {};
  bool has_warned = false;  // a pass logged a warning
  // The program in its place, if an earlier compilation of this process has bound it.
  std::shared_ptr<const emulator::BoundProgram> bound = {};
  emulator::StateBytes state = {};
  CompileRecord record = {};  // its seconds are those before the program is bound
};

// Parses a program's text and verifies the program.
Compiled parsed(std::string_view program, const ir::Registry& registry);

}  // namespace poptorch::compile
