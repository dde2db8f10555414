// A plain-loop kernel for every op that computes: the meaning of the vocabulary in executable form.
//
// Kernels compute in double (integers: exactly, in 64 bits) and round once to each result's dtype.
// They serve as test oracle, for constant folding where their bits are the fast kernels', and as
// the emulator's fallback. Buffers are dense and row-major.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/attr.hpp"
#include "reference/philox.hpp"

namespace poptorch::ir {
struct OpDef;
}

namespace poptorch::reference {

// One execution. The caller owns everything.
struct KernelCall {
  const ir::OpDef& op;
  const ir::Attrs& attrs;
  const std::vector<std::optional<ir::Type>>& inputs;  // nullopt: an absent operand
  const std::vector<ir::Type>& outputs;
  // Holds inputs, then outputs; nullptr for absent operands and unused results. Operands that the
  // op writes are changed in place; a result that is such an operand's memory has its address.
  std::byte* const* buffers = nullptr;
  RandomKey random = {};
};

struct Kernel {
  void (*run)(const KernelCall&) = nullptr;
  // Floating-point results are bit-identical with those of every fast kernel: data movement, and
  // formulas that IEEE arithmetic determines fully. Integer results always are.
  bool exact_floats = false;
};

// Returns nullptr for an op that does not compute on one device (streams, calls, collectives,
// foreign kernels).
const Kernel* find_kernel(std::string_view op);

// Returns true if the kernel's result is bit-identical with that of every other kernel of the op.
// It may then replace them, as constant folding does. Random ops and ops with effects never
// qualify.
bool is_bits_exact(const ir::OpDef& op, const std::vector<std::optional<ir::Type>>& inputs,
                   const std::vector<ir::Type>& outputs);

// Throws UnsupportedError for an op without a kernel or an element type that no kernel supports.
void run_reference(const KernelCall& call);

}  // namespace poptorch::reference
