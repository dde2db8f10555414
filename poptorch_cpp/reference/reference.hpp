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

// One execution. Everything is owned by the caller.
struct KernelCall {
  const ir::OpDef& op;
  const ir::Attrs& attrs;
  const std::vector<std::optional<ir::Type>>& inputs;  // nullopt: an absent operand
  const std::vector<ir::Type>& outputs;
  // Inputs, then outputs; nullptr for absent operands and unused results. Operands that the op
  // writes are changed in place; a result that is such an operand's memory has its address.
  std::byte* const* buffers = nullptr;
  RandomKey random = {};
};

struct Kernel {
  void (*run)(const KernelCall&) = nullptr;
  // Floating-point results have the same bits as every fast kernel's: data movement, and formulas
  // where IEEE arithmetic leaves no choice. Results of integers always have.
  bool exact_floats = false;
};

// nullptr: the op is no computation on one device (streams, calls, collectives, foreign kernels).
const Kernel* find_kernel(std::string_view op);

// The kernel's result has the bits of every other kernel's of the op: it may replace them, as
// constant folding does. Random ops and ops with effects never do.
bool is_bits_exact(const ir::OpDef& op, const std::vector<std::optional<ir::Type>>& inputs,
                   const std::vector<ir::Type>& outputs);

// UnsupportedError for an op without a kernel or an element type that no kernel has.
void run_reference(const KernelCall& call);

}  // namespace poptorch::reference
