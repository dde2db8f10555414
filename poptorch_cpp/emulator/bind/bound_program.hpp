// A program together with the code that it was bound to. Nothing changes it afterwards, so that
// engines may share it.
#pragma once

#include <memory>
#include <optional>

#include "emulator/bound/code.hpp"
#include "emulator/bound/options.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {

struct BoundProgram {
  program::Program program;
  std::optional<program::Program> host_program;  // runs instead of `program` if set
  Code code;                                     // of the program that runs
};

// `options` are complete: see Engine.
std::shared_ptr<const BoundProgram> bind_program(program::Program program,
                                                 const ir::Registry& registry,
                                                 const EngineOptions& options);

// Returns a program that differs from `bound` only in its device iterations, `to` instead of
// `from`, with the same kernels (lowering/device_iterations.hpp makes it). Its code is what
// bind_program() would make. Returns nullptr if the program runs in another form on the host.
std::shared_ptr<const BoundProgram> with_device_iterations(const BoundProgram& bound,
                                                           program::Program program, int64_t from,
                                                           int64_t to);

}  // namespace poptorch::emulator
