// The parts of the verifier of a code, which follow each other: each relies on the one before.
#pragma once

#include <cstddef>
#include <vector>

#include "emulator/bound/code.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

inline bool index_ok(int64_t index, size_t size) {
  return index >= 0 && index < static_cast<int64_t>(size);
}

struct StepPlace {
  size_t ipu = 0, step = 0;
};

template <typename... Args>
[[noreturn]] void refuse(const Args&... args) {
  throw support::InternalError(str("[verify] ", args...));
}

template <typename... Args>
[[noreturn]] void refuse_at(StepPlace place, const Args&... args) {
  refuse("step ", place.step, " of IPU ", place.ipu, " ", args...);
}

// Checks storages, values and regions.
void verify_declarations(const Code& code);

// Checks a step by itself: its arguments, bytes and indices.
void verify_step(const Code& code, StepPlace place);

// Checks that a kernel's operands are those of its instructions, and its arguments those of the
// step. Arguments are values of the code.
void verify_kernel(const Code& code, const InstructionTable& instructions, StepPlace place);

// Follows the steps of an IPU and checks that each reads memory which holds the value that it
// names: written before, and not overwritten since.
void verify_memory(const Code& code, const InstructionTable& instructions, size_t ipu);

}  // namespace poptorch::emulator
