// The instruction sets that the files of wide/ are compiled for.
#pragma once

namespace poptorch::emulator {

enum class Isa { kAvx2, kAvx512 };

// Returns the widest set that this host supports and POPTORCH_MAX_CPU_ISA allows. Throws UserError
// when the variable names none.
Isa host_isa();

// Calls `f`, a template by Isa, for the host's set: a new instruction set is a case here.
template <typename F>
decltype(auto) on_host_isa(F f) {
  return host_isa() == Isa::kAvx512 ? f.template operator()<Isa::kAvx512>()
                                    : f.template operator()<Isa::kAvx2>();
}

}  // namespace poptorch::emulator
