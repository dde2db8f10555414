// What a compilation made, or what is left of it in a file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compile/options.hpp"
#include "emulator/bound/options.hpp"
#include "ir/execution.hpp"
#include "ir/module.hpp"
#include "program/program.hpp"

namespace poptorch::compile {

// Each IR form as it was (a clone: printing waits until someone asks), and the program. Of one that
// was loaded, what its file has: no form but the program.
struct Compiled {
  std::unique_ptr<ir::Module> traced = {}, normal = {}, differentiated = {}, placed = {};
  std::optional<ir::Execution> execution = {};
  // "The highest of a replica is IPU 2, of op 'linear' of block 'c' (model.py:4)."; nothing of a
  // module on IPU 0 alone.
  std::string highest_ipu = {};
  program::Program program = {};
  emulator::StateBytes state = {};
  CompileRecord record = {};  // its seconds are those before the program is bound
};

// Of a program's text, once it is verified.
Compiled parsed(std::string_view program, const ir::Registry& registry);

}  // namespace poptorch::compile
